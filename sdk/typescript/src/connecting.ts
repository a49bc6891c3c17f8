/** Why there is no connection: each cause by its own code, since each has another remedy. */

import { ConnectionFailedError } from './errors.js'
import type { Location } from './location.js'
import { WireError } from './wire.js'

interface Cause {
  readonly code: string
  readonly words: string
  readonly hint: string
  /** Trying again does not help: the address, the certificate or a right is wrong. */
  readonly final: boolean
}

const UNTRUSTED: Cause = {
  code: 'certificate_untrusted',
  words: 'the certificate of the server at WHERE is of an authority that this program does not trust',
  hint: 'name the PEM file of its authority with NODE_EXTRA_CA_CERTS; where TLS is inspected, that of the network',
  final: true,
}
const OUT_OF_TIME: Cause = {
  code: 'certificate_out_of_time',
  words: 'the certificate of the server at WHERE has expired, or is not valid yet',
  hint: "check this host's clock; else the server needs a new certificate",
  final: true,
}
const NOBODY: Cause = {
  code: 'nobody_listens',
  words: 'no server listens at WHERE',
  hint: 'start it there with `paddock serve`; PADDOCK_URL says where to look',
  final: false,
}
const DENIED: Cause = {
  code: 'socket_denied',
  words: 'this user may not use the socket of the server at WHERE',
  hint: "a server's socket is its owner's alone: ask for an address and a token, or unset PADDOCK_URL",
  final: true,
}
const NAME_UNKNOWN: Cause = {
  code: 'name_unknown',
  words: 'the name of the server at WHERE is not known',
  hint: 'check PADDOCK_URL, and the network',
  final: false,
}
const CONNECT_TIMEOUT: Cause = {
  code: 'connect_timeout',
  words: 'the server at WHERE did not answer in time',
  hint: 'check PADDOCK_URL, and whether a firewall is in between',
  final: false,
}
const NOT_TLS: Cause = {
  code: 'not_tls',
  words: 'the server at WHERE does not speak TLS',
  hint: 'PADDOCK_URL begins with http:// if it is a Paddock server without TLS',
  final: true,
}

/** By the codes of Node's errors. */
const BY_CODE: Readonly<Record<string, Cause>> = {
  ECONNREFUSED: NOBODY,
  ENOENT: NOBODY,
  EACCES: DENIED,
  EPERM: DENIED,
  ENOTFOUND: NAME_UNKNOWN,
  EAI_AGAIN: NAME_UNKNOWN,
  ETIMEDOUT: CONNECT_TIMEOUT,
  EPROTO: NOT_TLS,
  ERR_SSL_WRONG_VERSION_NUMBER: NOT_TLS,
  CERT_HAS_EXPIRED: OUT_OF_TIME,
  CERT_NOT_YET_VALID: OUT_OF_TIME,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNTRUSTED,
  SELF_SIGNED_CERT_IN_CHAIN: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT: UNTRUSTED,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: UNTRUSTED,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNTRUSTED,
  ERR_TLS_CERT_ALTNAME_INVALID: {
    code: 'certificate_other_name',
    words: 'the certificate of the server at WHERE is for another name',
    hint: 'write the name that the certificate is for into PADDOCK_URL',
    final: true,
  },
}

export function connectionFailed(error: unknown, location: Location): ConnectionFailedError {
  const said = error instanceof Error && error.message ? error.message : String(error)
  const cause = causeOf(error)
  if (cause) {
    const words = cause.words.replace('WHERE', location.shown)
    return new ConnectionFailedError(`${words}: ${said}`, { code: cause.code, hint: cause.hint, cause: error })
  }
  const reached = !(error instanceof WireError) || error.failure !== 'never-reached'
  const words = reached ? 'lost the connection to' : 'cannot reach'
  return new ConnectionFailedError(`${words} the server at ${location.shown}: ${said}`, {
    hint: 'is `paddock serve` running there? PADDOCK_URL says where to look',
    cause: error,
  })
}

export function isFinal(error: unknown): boolean {
  return causeOf(error)?.final ?? false
}

function causeOf(error: unknown): Cause | undefined {
  // A connection that once stood and broke has other causes than one that was never made.
  if (error instanceof WireError && error.failure !== 'never-reached') return undefined
  for (let inner: unknown = error, depth = 0; inner instanceof Error && depth < 8; inner = inner.cause, depth++) {
    const members = inner instanceof AggregateError ? [inner, ...inner.errors] : [inner]
    for (const member of members) {
      const code = (member as { code?: unknown }).code
      if (typeof code === 'string' && BY_CODE[code]) return BY_CODE[code]
    }
  }
  return undefined
}
