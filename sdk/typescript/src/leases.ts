/**
 * Sandboxes that live as long as the program that made them: a short time to live, which a timer renews. A program that is killed by SIGKILL
 * cleans nothing up. Its timer is gone with it, so that the sandbox ends within the lease.
 */

import { InvalidRequestError, SandboxEndedError, SandboxNotFoundError } from './errors.js'
import type { SandboxInfo } from './models.js'
import type { Sandbox } from './sandbox.js'

/** A sandbox ends so long after the program that made it, at the latest. */
export const LEASE_MS = 120_000
/** A create may pull an image for so long. A program that is killed meanwhile leaves the sandbox for that time. */
const CREATION_MS = 1_200_000
/** A lease is renewed when this part of it has gone by, and tried again after the other part where that failed. */
const RENEWED_AFTER = 1 / 3
const TRIED_AGAIN_AFTER = 1 / 12
/** The server tells its times in milliseconds, and an answer takes a moment. */
const SLACK_MS = 5_000

/** The time to live with which a sandbox is created. Its lease begins when it is there. */
export function firstLifeMs(lifeMs: number, leaseMs: number | null): number {
  if (leaseMs === null) return lifeMs
  if (!(leaseMs > 0 && Number.isFinite(leaseMs))) {
    throw new InvalidRequestError(`leaseMs is ${leaseMs}, and has to be null (no lease) or a positive number of milliseconds`)
  }
  return Math.min(lifeMs, Math.max(leaseMs, CREATION_MS))
}

/** The lease of one sandbox, from `hold` on. */
export class Lease {
  readonly #sandbox: Sandbox
  readonly #leaseMs: number
  /** When the whole life is over, and when the last answer came, by the clock of this program that nobody sets. */
  readonly #until: number
  #toldAt = 0
  /** The end that the server told, by the clock of the server. */
  #told = 0
  #timer: ReturnType<typeof setTimeout> | undefined
  #over = false

  private constructor(sandbox: Sandbox, lifeMs: number, leaseMs: number) {
    this.#sandbox = sandbox
    this.#leaseMs = leaseMs
    this.#until = performance.now() + lifeMs
  }

  /** Lets the sandbox live for `lifeMs`, and no longer than the lease without this program. */
  static async hold(sandbox: Sandbox, lifeMs: number, leaseMs: number | null): Promise<Lease | undefined> {
    if (leaseMs === null || lifeMs <= leaseMs) return undefined
    const lease = new Lease(sandbox, lifeMs, leaseMs)
    lease.#renewed(await sandbox.extend(leaseMs))
    return lease
  }

  /** Renews no more. */
  end(): void {
    this.#over = true
    clearTimeout(this.#timer)
  }

  #renewed({ expiresAt }: SandboxInfo): void {
    this.#told = Number(expiresAt)
    this.#toldAt = performance.now()
    this.#again(RENEWED_AFTER)
  }

  #again(part: number): void {
    if (this.#over) return
    this.#timer = setTimeout(() => void this.#renew(), this.#leaseMs * part)
    // A program that has nothing else to do ends.
    ;(this.#timer as { unref?: () => void }).unref?.()
  }

  async #renew(): Promise<void> {
    const leftMs = this.#until - performance.now()
    if (leftMs <= 0) return
    // An answer that comes later than this would come too late.
    const signal = AbortSignal.timeout(this.#leaseMs * RENEWED_AFTER)
    try {
      const { state, expiresAt } = await this.#sandbox.info({ signal })
      if (this.#over || state === 'ended') return
      const given = Number(expiresAt) - this.#told + this.#leaseMs - (performance.now() - this.#toldAt)
      // Somebody gave it more time by `extend`, and it keeps that. A clock of the server that was set looks the same: hence the call, without
      // which the sandbox would end.
      if (given > this.#leaseMs + SLACK_MS) return void (await this.#sandbox.extend(given, { signal }))
      this.#renewed(await this.#sandbox.extend(Math.min(this.#leaseMs, leftMs), { signal }))
    } catch (error) {
      if (error instanceof SandboxEndedError || error instanceof SandboxNotFoundError) return
      this.#again(TRIED_AGAIN_AFTER)
    }
  }
}
