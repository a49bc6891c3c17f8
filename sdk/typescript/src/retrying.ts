/** When a request is tried again, and how long to wait before. */

import { checkAborted, WireError } from './wire.js'

/**
 * Requests that are safe to repeat (by their method, by an idempotency key, by offsets) are repeated when the connection is
 * lost; all others only when it was never made, so that nothing is done twice.
 */
export interface RetryPolicy {
  readonly retries: number
  readonly firstMs: number
  readonly longestMs: number
}

export const DEFAULT_RETRY: RetryPolicy = { retries: 6, firstMs: 50, longestMs: 2000 }

/** Milliseconds before the try after `attempt` (from 0); spread out, so that many clients do not come at once. */
export function pauseMs(policy: RetryPolicy, attempt: number, retryAfterMs?: number): number {
  if (retryAfterMs !== undefined) return Math.min(retryAfterMs, 10 * policy.longestMs)
  const ceiling = Math.min(policy.longestMs, policy.firstMs * 2 ** attempt)
  return ceiling * (0.5 + Math.random() / 2)
}

/** A server that is silent for the whole patience is not asked for the same patience again. */
export function mayRepeat(error: WireError, repeatable: boolean): boolean {
  return error.failure === 'never-reached' || (repeatable && error.failure === 'broken')
}

export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  checkAborted(signal)
  await new Promise<void>((resolve, reject) => {
    const stop = (): void => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop)
      resolve()
    }, ms)
    signal?.addEventListener('abort', stop, { once: true })
  })
}
