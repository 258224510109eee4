// Sandboxes over the E2B SDKs: made, found, paused, ended.
import assert from 'node:assert/strict';
import { need, variant, test, run } from './case.mjs';

const { Sandbox, SandboxNotFoundError, AuthenticationError } = need(variant);

test('create, info and kill', async () => {
	const s = await Sandbox.create({ timeoutMs: 60000 });
	const info = await s.getInfo();
	assert.equal(info.sandboxId, s.sandboxId);
	assert.equal(info.state, 'running');
	assert.equal(await s.isRunning(), true);
	assert.equal(await s.kill(), true);
	assert.equal(await s.isRunning(), false);
	assert.equal(await s.kill(), false);
});

await run();
