// Templates over the E2B SDK: built, named, started from.
import assert from 'node:assert/strict';
import { need, variant, test, run } from './case.mjs';

const { Template } = need(variant);

test('a build is ready in the end', async () => {
	const t = Template().fromBaseImage().runCmd('echo built > made');
	const b = await Template.build(t, 'first');
	assert.equal((await Template.getBuildStatus(b)).status, 'ready');
	assert.equal(await Template.exists('first'), true);
});

await run();
