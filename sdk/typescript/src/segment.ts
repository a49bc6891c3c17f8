/** Names in addresses. */

import { InvalidRequestError } from './errors.js'

/** One segment of a path. Names cannot lead to another resource. */
export function segment(name: string): string {
  if (typeof name !== 'string' || name === '' || name === '.' || name === '..') {
    throw new InvalidRequestError(`${JSON.stringify(name)} is no id and no name`)
  }
  return percent(name)
}

export function percent(text: string): string {
  // A lone half of a surrogate pair has no bytes in UTF-8.
  return encodeURIComponent((text as { toWellFormed?(): string }).toWellFormed?.() ?? text).replace(/[!'()*~]/g, (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`)
}
