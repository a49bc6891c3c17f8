/** Addresses, tokens, retries and answers that are no answers of a Paddock server. */

import assert from 'node:assert/strict'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { createServer as createRawServer, type AddressInfo, type Server as RawServer } from 'node:net'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  Client, ConnectionFailedError, ForbiddenError, InvalidRequestError, PaddockError, QuotaExceededError, Sandbox, UnauthorizedError, UnavailableError,
  UnexpectedAnswerError, type RetryPolicy, type Watch,
} from 'paddock'
import { sandbox, TCP_URL, temporaryDirectory, withCode } from './setup.js'

const FAST: RetryPolicy = { retries: 3, firstMs: 1, longestMs: 2 }
const closing: (Server | RawServer)[] = []
after(() => {
  for (const server of closing) {
    server.close()
    ;(server as Server).closeAllConnections?.()
  }
})

/** A server that answers as a test says; the number of a request counts from 0. */
async function standIn(answer: (request: IncomingMessage, response: ServerResponse, number: number) => void): Promise<{ client: Client; seen: IncomingMessage[] }> {
  const seen: IncomingMessage[] = []
  const server = createServer((request, response) => {
    seen.push(request)
    request.resume()
    answer(request, response, seen.length - 1)
  })
  closing.push(server)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { client: new Client({ url: `http://127.0.0.1:${port}`, retry: FAST }), seen }
}

const SANDBOX = { id: 'sb-1', state: 'running', tenant: 't', created_at_ms: 0, persistent: false, metadata: {}, limits: {}, guarantees: {}, running_execs: 0 }

function json(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(body))
}

describe('forks that are made each by itself', () => {
  test('an error stands in the place of each that failed', async () => {
    const full = { place: 0, status: 429, code: 'quota_exceeded', message: 'used up', hint: 'end some', retry_after_seconds: 5 }
    const lost = { place: 2, status: 503, code: 'of_a_newer_server', message: 'gone' }
    const sandboxes = [SANDBOX, { ...SANDBOX, id: 'sb-2' }]
    const { client, seen } = await standIn((request, response) =>
      request.method === 'GET' ? json(response, 200, SANDBOX) : json(response, 201, { sandboxes, failed: [full, lost] }))
    const source = await Sandbox.connect('sb-1', { client })
    const [first, second, third, fourth] = await source.fork(4, { partial: true })
    assert.ok(first instanceof QuotaExceededError && third instanceof UnavailableError)
    assert.deepEqual([first.message, first.hint, first.status, first.retryAfterMs], ['used up', 'end some', 429, 5000])
    assert.equal(third.code, 'of_a_newer_server')
    assert.ok(second instanceof Sandbox && fourth instanceof Sandbox)
    assert.deepEqual([second.id, fourth.id], ['sb-1', 'sb-2'])
    assert.equal(seen.length, 2)
    // @ts-expect-error: one sandbox is made or an error is thrown.
    await assert.rejects(source.fork({ partial: true }), InvalidRequestError)
    assert.equal(seen.length, 2)
  })
})

describe('addresses', () => {
  for (const url of ['127.0.0.1:7777', 'ftp://x', 'unix:relative', 'http://', '']) {
    test(`'${url}' is refused${url === '' ? ' or is the default' : ''}`, () => {
      if (url === '') assert.doesNotThrow(() => new Client())
      else assert.throws(() => new Client({ url }), InvalidRequestError)
    })
  }
  test('a socket path that is too long is refused', () => {
    assert.throws(() => new Client({ url: `unix:/${'x'.repeat(200)}` }), InvalidRequestError)
  })
  test('a password in the address is refused, and not repeated', () => {
    assert.throws(() => new Client({ url: 'http://me:sesame@127.0.0.1' }), (error: Error) => !error.message.includes('sesame'))
  })
  test('nobody listens at a port', async () => {
    await assert.rejects(Sandbox.connect('x', { client: new Client({ url: 'http://127.0.0.1:1', retry: FAST }) }), withCode('nobody_listens'))
  })
  test('nobody listens at a socket', async () => {
    const client = new Client({ url: `unix:${temporaryDirectory()}/none.sock`, retry: FAST })
    await assert.rejects(client.whoami(), withCode('nobody_listens'))
  })
  test('a name that is not known', async () => {
    const client = new Client({ url: 'http://no-such-host.invalid', retry: { retries: 0 } })
    await assert.rejects(client.whoami(), withCode('name_unknown'))
  })
  test('TLS where there is none', async () => {
    const { port } = new URL(TCP_URL)
    await assert.rejects(new Client({ url: `https://127.0.0.1:${port}`, retry: FAST }).whoami(), withCode('not_tls'))
  })
})

describe('tokens', () => {
  test('none is unauthorized by TCP', async () => {
    const error = await new Client({ url: TCP_URL }).whoami().catch((one) => one)
    assert.ok(error instanceof UnauthorizedError)
    assert.equal(error.status, 401)
    assert.ok(error.hint)
    assert.ok(error.requestId)
  })
  test('a wrong one is unauthorized', async () => {
    await assert.rejects(new Client({ url: TCP_URL, token: 'pdk_wrong' }).whoami(), UnauthorizedError)
  })
  test('one with a line end is refused, and not repeated', () => {
    assert.throws(() => new Client({ url: TCP_URL, token: 'sesame\r\nx: y' }), (error: Error) => !error.message.includes('sesame'))
  })
  test('a read-only one looks and changes nothing', async () => {
    const secret = (await new Client().call('POST', '/v1/tokens', { json: { tenant: 'ts-readers', role: 'read-only' } }))['secret']
    const client = new Client({ url: TCP_URL, token: secret })
    assert.equal((await client.whoami()).role, 'read-only')
    await assert.rejects(Sandbox.create({ client }), ForbiddenError)
  })
  test("another tenant's sandbox is not there", async () => {
    const box = await sandbox()
    const secret = (await new Client().call('POST', '/v1/tokens', { json: { tenant: 'ts-others', role: 'user' } }))['secret']
    await assert.rejects(Sandbox.connect(box.id, { client: new Client({ url: TCP_URL, token: secret }) }), withCode('sandbox_not_found'))
  })
  test('the token of the environment is not sent to another server', async () => {
    process.env['PADDOCK_TOKEN'] = 'pdk_secret'
    try {
      const { client, seen } = await standIn((_, response) => json(response, 200, { tenant: 't', role: 'user' }))
      await client.whoami()
      assert.equal(seen[0]?.headers.authorization, undefined)
    } finally {
      delete process.env['PADDOCK_TOKEN']
    }
  })
})

describe('retries', () => {
  test('a create whose connection is lost is repeated with the same key', async () => {
    const { client, seen } = await standIn((request, response, number) => {
      if (number < 2) request.socket.destroy()
      else json(response, 201, SANDBOX)
    })
    assert.equal((await Sandbox.create({ client })).id, 'sb-1')
    const keys = new Set(seen.map((request) => request.headers['idempotency-key']))
    assert.equal(seen.length, 3)
    assert.equal(keys.size, 1)
  })
  test('a move whose connection is lost is not repeated', async () => {
    const { client, seen } = await standIn((request) => request.socket.destroy())
    await assert.rejects(client.call('POST', '/v1/x'), ConnectionFailedError)
    assert.equal(seen.length, 1)
  })
  test('503 is tried again where that is safe', async () => {
    const { client, seen } = await standIn((_, response, number) => {
      if (number === 0) json(response, 503, { code: 'unavailable', message: 'later' }, { 'retry-after': '0' })
      else json(response, 200, { tenant: 't', role: 'user' })
    })
    await client.whoami()
    assert.equal(seen.length, 2)
  })
  test('503 is not tried again where it is not safe', async () => {
    const { client, seen } = await standIn((_, response) => json(response, 503, { code: 'unavailable', message: 'later' }))
    await assert.rejects(client.call('POST', '/v1/x'), withCode('unavailable'))
    assert.equal(seen.length, 1)
  })
  test('retries end', async () => {
    const { client, seen } = await standIn((request) => request.socket.destroy())
    await assert.rejects(client.whoami(), ConnectionFailedError)
    assert.equal(seen.length, FAST.retries + 1)
  })
  test('an abort ends the waiting for the next try', async () => {
    const { client } = await standIn((_, response) => json(response, 503, { code: 'unavailable', message: 'later' }, { 'retry-after': '600' }))
    const patient = new Client({ url: (await client.location()).baseUrl })
    await assert.rejects(patient.whoami({ signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' })
  })
  test('an abort ends a silent answer', async () => {
    const { client } = await standIn(() => {})
    await assert.rejects(client.whoami({ signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' })
  })
  test('a silent server is given up after the patience', async () => {
    const { client } = await standIn(() => {})
    await assert.rejects(client.request('GET', '/x', { patienceMs: 100 }), ConnectionFailedError)
  })
  test('an answer that breaks off is no answer', async () => {
    const { client, seen } = await standIn((_, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('half')
      setTimeout(() => response.destroy(), 20)
    })
    await assert.rejects(client.request('GET', '/x'), ConnectionFailedError)
    assert.equal(seen.length, FAST.retries + 1)
  })
})

describe('a watch over a connection that says nothing more', () => {
  /** Each answer of the server begins a watch; what else it says is the test's. */
  async function watchOf(headers: Record<string, string>, more: (line: (kind: string) => void, number: number) => void): Promise<Watch> {
    const { client } = await standIn((request, response, number) => {
      if (!request.url?.includes('/files/watch')) return json(response, 200, SANDBOX)
      response.writeHead(200, { 'content-type': 'application/x-ndjson', ...headers })
      const line = (kind: string): void => void response.write(`${JSON.stringify({ kind, path: '/d' })}\n`)
      line('watching')
      more(line, number)
    })
    return (await Sandbox.connect('sb-1', { client })).files.watch('/d')
  }

  test('begins anew where the server promised to say that it lives', { timeout: 20_000 }, async () => {
    await using watch = await watchOf({ 'x-paddock-alive-seconds': '0.1' }, (line, number) => number === 1 && line('created'))
    assert.equal((await watch.next()).value?.kind, 'created')
    assert.equal((await watch.next()).value?.kind, 'overflow')
  })
  test('stays where the server says that it lives, however slow the program is', { timeout: 20_000 }, async () => {
    let ticking: ReturnType<typeof setInterval> | undefined
    await using watch = await watchOf({ 'x-paddock-alive-seconds': '0.1' }, (line) => {
      line('created')
      let ticks = 0
      ticking = setInterval(() => line(++ticks === 12 ? 'deleted' : 'alive'), 50)
    })
    assert.equal((await watch.next()).value?.kind, 'created')
    await sleep(500)
    assert.equal((await watch.next()).value?.kind, 'deleted')
    clearInterval(ticking)
  })
  test('waits where the server is older than that promise', { timeout: 20_000 }, async () => {
    await using watch = await watchOf({}, (line) => void setTimeout(() => line('created'), 600))
    assert.equal((await watch.next()).value?.kind, 'created')
  })
})

describe('answers', () => {
  for (const [name, status, body, code, kind] of [
    ['HTML', 200, '<html>a proxy</html>', 'unexpected_answer', UnexpectedAnswerError],
    ['a list', 200, '[1]', 'unexpected_answer', UnexpectedAnswerError],
    ['nothing', 200, '', 'unexpected_answer', UnexpectedAnswerError],
    ['HTML as an error', 502, '<h1>Bad Gateway</h1>', 'unexpected_answer', PaddockError],
    ['an unknown code', 418, '{"code": "teapot", "message": "short and stout", "hint": "tip me over"}', 'teapot', PaddockError],
    ['an unknown code of a known status', 403, '{"code": "very_forbidden", "message": "no"}', 'very_forbidden', ForbiddenError],
    ['a code that is no text', 400, '{"code": 7}', 'unexpected_answer', InvalidRequestError],
  ] as const) {
    test(`${name} is told`, async () => {
      const { client } = await standIn((_, response) => response.writeHead(status).end(body))
      const error = await client.call('POST', '/x').catch((one) => one)
      assert.ok(error instanceof kind, String(error))
      assert.equal(error.code, code)
    })
  }
  test('a redirect is not followed with the token', async () => {
    const { client } = await standIn((_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end())
    await assert.rejects(client.whoami(), (error: PaddockError) => error.status === 302)
  })
  test('a redirect is not followed by `fetch` either, and is told at once', async () => {
    const { client, seen } = await standIn((_, response) => response.writeHead(302, { location: 'http://127.0.0.1:1/' }).end())
    const other = new Client({ url: (await client.location()).baseUrl, token: 'pdk_x', fetch: globalThis.fetch, retry: FAST })
    await assert.rejects(other.whoami(), (error: PaddockError) => error.status === 302)
    const opaque = new Client({ url: 'http://127.0.0.1:1', fetch: async () => Object.assign(Object.create({ type: 'opaqueredirect' }), { status: 0, headers: new Headers(), body: null }), retry: FAST })
    await assert.rejects(opaque.whoami(), (error: PaddockError) => error.status === 302)
    assert.equal(seen.length, 1)
  })
  test('retry-after, request id and details arrive', async () => {
    const { client } = await standIn((_, response) => json(response, 429, { code: 'quota_exceeded', message: 'm', details: { limit: 3 } }, { 'retry-after': '2', 'x-request-id': 'rq-9' }))
    const error = await client.call('POST', '/x').catch((one) => one)
    assert.deepEqual([error.retryAfterMs, error.requestId, error.details.limit], [2000, 'rq-9', 3])
    assert.match(String(error), /QuotaExceededError: m \(quota_exceeded\)/)
  })
  test('garbage instead of HTTP is a lost connection', async () => {
    const server = createRawServer((socket) => socket.end('SSH-2.0-OpenSSH\r\n'))
    closing.push(server)
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    await assert.rejects(new Client({ url: `http://127.0.0.1:${port}`, retry: FAST }).whoami(), ConnectionFailedError)
  })
  test('output that skips bytes is refused', async () => {
    const { client } = await standIn((_, response) => {
      response.end(`${JSON.stringify({ type: 'output', stream: 'stdout', offset: 5, data: 'YQ==' })}\n`)
    })
    const { Process } = await import('paddock')
    await assert.rejects(async () => {
      for await (const _ of new Process(client, 'sb-1', 1)) continue
    }, UnexpectedAnswerError)
  })
  for (const line of ['no json', '{"type": "output", "stream": "other", "offset": 0, "data": ""}', '{"type": "output", "stream": "stdout", "offset": -1, "data": ""}', '{"type": "output", "stream": "stdout", "offset": 0, "data": "%%%"}']) {
    test(`the line ${line} is refused`, async () => {
      const { client } = await standIn((_, response) => response.end(`${line}\n`))
      const { Process } = await import('paddock')
      await assert.rejects(async () => {
        for await (const _ of new Process(client, 'sb-1', 1)) continue
      }, UnexpectedAnswerError)
    })
  }
  test('output that breaks off is taken up where it was', async () => {
    const line = (value: unknown): string => `${JSON.stringify(value)}\n`
    const { client, seen } = await standIn((request, response, number) => {
      if (number === 0) {
        response.write(line({ type: 'output', stream: 'stdout', offset: 0, data: btoa('abc') }))
        response.write('{"type": "output", "stre')
        setTimeout(() => response.destroy(), 20)
      } else {
        assert.match(request.url ?? '', /stdout_offset=3/)
        response.write(line({ type: 'output', stream: 'stdout', offset: 1, data: btoa('bcdef') }))
        response.end(line({ type: 'ended', exec: { exec: 1, exit_code: 0, cause: { kind: 'exited' }, started_at_ms: 0 } }))
      }
    })
    const { Process } = await import('paddock')
    let text = ''
    for await (const event of new Process(client, 'sb-1', 1)) if (event.type === 'output') text += event.text
    assert.equal(text, 'abcdef')
    assert.equal(seen.length, 2)
  })
})

describe('fetch of one\'s own', () => {
  const withFetch = (): Client =>
    new Client({ url: TCP_URL, token: process.env['PADDOCK_TEST_TOKEN'], fetch: (input, init) => fetch(input, init) })
  test('serves commands, code, files and streams, as in a browser', async () => {
    await using box = await Sandbox.create({ ttlMs: 60_000, client: withFetch() })
    assert.equal((await box.commands.run('echo by fetch')).stdout, 'by fetch\n')
    const lines: string[] = []
    assert.equal((await box.runCode('print(1)\n2', { onStdout: (text) => lines.push(text) })).text, '2')
    assert.equal(lines.join('').trim(), '1')
    async function* pieces(): AsyncGenerator<string> {
      yield 'a'
      yield 'b'
    }
    await box.files.write('f', pieces())
    assert.equal(await box.files.read('f'), 'ab')
    assert.equal(await new Response(await box.files.read('f', { format: 'stream' })).text(), 'ab')
    assert.match(await box.portUrl(8080, '/x'), /^http:.*\/ports\/8080\/x$/)
  })
  test('aborts', async () => {
    await using box = await Sandbox.create({ ttlMs: 60_000, client: withFetch() })
    await assert.rejects(box.commands.run('sleep 600', { signal: AbortSignal.timeout(200) }), { name: 'TimeoutError' })
  })
  test('a failure of it is a lost connection', async () => {
    const client = new Client({
      url: 'http://x', retry: FAST,
      fetch: async () => {
        throw new TypeError('Failed to fetch')
      },
    })
    await assert.rejects(client.whoami(), ConnectionFailedError)
  })
})

test('by TCP with a token all works as on the socket', async () => {
  const client = new Client({ url: TCP_URL, token: process.env['PADDOCK_TEST_TOKEN'] })
  await using box = await Sandbox.create({ ttlMs: 60_000, client })
  assert.equal((await box.commands.run('echo tcp')).stdout, 'tcp\n')
  assert.deepEqual(await client.templates(), await new Client().templates())
})
