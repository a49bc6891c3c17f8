/** Names of sandboxes for ids of frameworks, which may be anything. */

/** An id that fits the pattern stays readable; others are told apart by their digest, so that none leads to the sandbox of another. */
export async function nameFor(id: string, readable: RegExp): Promise<string> {
  if (readable.test(id) && !id.startsWith('sha-')) return id
  const hash = new Uint8Array(await crypto.subtle.digest('SHA-256', new TextEncoder().encode(id)))
  return `sha-${Array.from(hash.subarray(0, 16), (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}
