// The name by which programs at ports inside are asked.
import { assert, address, subject, until, withSandbox } from './world.mjs'

const test = subject('ports')
const MIRROR = "require('http').createServer((q, a) => a.end(q.headers.host)).listen(3458, '127.0.0.1')"

test('the_host_that_mask_request_host_names', async () => {
  for (const [mask, told] of [[undefined, 'localhost:3458'], ['${PORT}.app.example:${PORT}', '3458.app.example:3458'], ['app.example', 'app.example']]) {
    await withSandbox(mask ? { network: { maskRequestHost: mask } } : {}, async (sandbox) => {
      assert.equal((await sandbox.getInfo()).network?.maskRequestHost, mask)
      const running = await sandbox.commands.run(`node -e "${MIRROR}"`, { background: true, timeoutMs: 0 })
      const ended = running.wait().catch(() => undefined)
      const headers = { 'E2b-Sandbox-Id': sandbox.sandboxId, 'E2b-Sandbox-Port': '3458', 'E2B-Traffic-Access-Token': sandbox.trafficAccessToken }
      const answer = await until(() => fetch(`${address}/`, { headers }), (one) => one.status === 200)
      assert.equal(await answer.text(), told)
      await running.kill()
      await ended
    })
  }
})
