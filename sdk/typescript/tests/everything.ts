/** A program for every runtime that is not Node: Chromium's page and worker, and an edge runtime. */

/** Everything but the unix socket. `sdk` is the package; what it returns is compared outside. */
export const EVERYTHING = `
async function everything(sdk, url, token) {
  const client = new sdk.Client({ url, token })
  const box = await sdk.Sandbox.create({ ttlMs: 120000, client })
  const seen = {}
  try {
    const pieces = []
    const result = await box.commands.run('echo out; echo err >&2; exit 3', { onStdout: (text) => pieces.push(text) })
    seen.command = [result.exitCode, pieces.join(''), result.stderr]
    const process = await box.commands.start('while read line; do echo got $line; done')
    await process.writeStdin('one\\n')
    await process.closeStdin()
    seen.process = ''
    for await (const event of process) if (event.type === 'output') seen.process += event.text
    await box.files.write('d/f', new Blob(['grüß']))
    seen.text = await box.files.read('d/f')
    seen.bytes = [...(await box.files.read('d/f', { format: 'bytes' }))].length
    seen.stream = await new Response(await box.files.read('d/f', { format: 'stream' })).text()
    seen.blob = (await box.files.read('d/f', { format: 'blob' })).size
    const events = await box.files.watch('d')
    await box.files.write('d/new', 'x')
    for await (const event of events) if (event.path.endsWith('new')) { seen.event = true; break }
    seen.live = ''
    seen.code = (await box.runCode('print("live"); 6 * 7', { onStdout: (text) => { seen.live += text } })).text
    const error = await box.files.read('nothing').catch((one) => one)
    seen.error = [error instanceof sdk.FileNotFoundError, error.code, error.status, typeof error.requestId]
    const abort = await box.commands.run('sleep 600', { signal: AbortSignal.timeout(300) }).catch((one) => one)
    seen.abort = abort.name
    await box.runCode('import http.server, threading\\nthreading.Thread(target=http.server.HTTPServer(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler).serve_forever, daemon=True).start()')
    seen.port = (await box.fetch(8000, '/d/f').then((answer) => answer.text()))
    const upload = await box.files.upload('/etc/hostname', 'x').catch((one) => one)
    seen.upload = [upload instanceof sdk.UnsupportedError, upload.message]
    const socket = await new sdk.Client({ url: 'unix:/x/y' }).whoami().catch((one) => one)
    seen.socket = socket instanceof sdk.UnsupportedError
    const child = await box.fork()
    seen.fork = await child.files.read('d/f')
    await child.kill()
  } finally {
    seen.ended = (await box.kill()).state
  }
  return seen
}
`
/** What it returns. */
export const EVERYTHING_SEEN = {
  command: [3, 'out\n', 'err\n'], process: 'got one\n', text: 'grüß', bytes: 6, stream: 'grüß', blob: 6, event: true, code: '42', live: 'live\n',
  error: [true, 'file_not_found', 404, 'string'], abort: 'TimeoutError', port: 'grüß',
  upload: [true, 'an upload from a path needs Node, Bun or Deno, and this runtime has none of their modules'], socket: true, fork: 'grüß', ended: 'ended',
}
