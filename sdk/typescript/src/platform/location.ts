/** The state directory and the socket of this user, by the rules of the command and of the Python SDK. */

import { realpathSync } from 'node:fs'
import { dirname, join, basename, resolve } from 'node:path'
import { ServerNotStartedError } from '../errors.js'

type Environment = Readonly<Record<string, string | undefined>>

/** The socket of the server of this state directory. No two state directories share one. */
export function defaultSocket(environment: Environment = process.env): string {
  const state = real(stateDirectory(environment))
  if (state !== usualStateDirectory(environment)) return join(state, 'run', 'api.sock')
  if (isRoot()) return '/run/paddock/api.sock'
  const runtime = environment['XDG_RUNTIME_DIR'] ?? ''
  if (runtime.startsWith('/')) return join(runtime, 'paddock', 'api.sock')
  return join(state, 'run', 'api.sock')
}

/** The same as the command's own. */
export function stateDirectory(environment: Environment = process.env): string {
  if (environment['PADDOCK_STATE_DIR']) return environment['PADDOCK_STATE_DIR']
  if (isRoot()) return '/var/lib/paddock'
  if (environment['XDG_STATE_HOME']) return join(environment['XDG_STATE_HOME'], 'paddock')
  if (environment['HOME']) return join(environment['HOME'], '.local', 'state', 'paddock')
  throw new ServerNotStartedError("there is no place for Paddock's state: neither PADDOCK_STATE_DIR nor HOME is set", {
    hint: 'set PADDOCK_STATE_DIR, or PADDOCK_URL to a server that runs elsewhere',
  })
}

/** The one of this user where no variable names another. */
function usualStateDirectory(environment: Environment): string | undefined {
  if (isRoot()) return real('/var/lib/paddock')
  const home = environment['HOME'] ?? ''
  return home.startsWith('/') ? real(join(home, '.local/state/paddock')) : undefined
}

function isRoot(): boolean {
  return process.geteuid?.() === 0
}

/** The path without links, also where its last parts do not exist yet. */
function real(path: string): string {
  const absolute = resolve(path)
  try {
    return realpathSync(absolute)
  } catch {
    const above = dirname(absolute)
    return above === absolute ? absolute : join(real(above), basename(absolute))
  }
}
