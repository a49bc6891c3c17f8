/** Where the server is: a URL, else PADDOCK_URL, else the socket of this user. */

import { InvalidRequestError } from './errors.js'

/** The kernel takes so many bytes in sockaddr_un, without the closing zero. */
const LONGEST_SOCKET_PATH = 107

export interface Location {
  /** Requests are relative to it; for a socket only the Host header comes of it. */
  readonly baseUrl: string
  readonly socket?: string
  /** No server was configured, so one may be started. */
  readonly mayStart: boolean
  /** For messages. */
  readonly shown: string
}

export function locate(configured: string): Location {
  if (configured.startsWith('unix:')) {
    const path = configured.slice('unix:'.length).replace(/^\/\//, '')
    if (!path.startsWith('/')) {
      throw new InvalidRequestError(`the server's address '${configured}' has no absolute path`, {
        hint: 'write it as unix:/path/to/api.sock',
      })
    }
    return onSocket(path, false)
  }
  if (/^https?:\/\//.test(configured)) {
    let parsed: URL
    try {
      parsed = new URL(configured)
    } catch (error) {
      throw new InvalidRequestError(`the server's address '${configured}' is no URL`, { cause: error })
    }
    if (parsed.username || parsed.password) {
      throw new InvalidRequestError(`the server's address has a name or a password in it`, {
        hint: 'Paddock takes a token: the option `token`, or PADDOCK_TOKEN',
      })
    }
    const baseUrl = configured.replace(/\/+$/, '')
    return { baseUrl, mayStart: false, shown: baseUrl }
  }
  throw new InvalidRequestError(`the server's address '${configured}' begins with neither http://, https:// nor unix:`, {
    hint: 'set PADDOCK_URL to something like http://127.0.0.1:7777 or unix:/run/paddock/api.sock',
  })
}

export function onSocket(path: string, mayStart: boolean): Location {
  if (new TextEncoder().encode(path).length > LONGEST_SOCKET_PATH) {
    throw new InvalidRequestError(
      `the socket's path '${path}' is longer than the ${LONGEST_SOCKET_PATH} bytes that the kernel takes`,
      { hint: 'set PADDOCK_URL to unix: and a shorter path' },
    )
  }
  return { baseUrl: 'http://localhost', socket: path, mayStart, shown: `unix:${path}` }
}
