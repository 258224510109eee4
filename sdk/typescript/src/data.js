// What the daemon tells: its JSON with camelCase names and Dates for times.
// `raw` has everything as it came.

/**
 * @typedef {string | Uint8Array | Iterable<Uint8Array> |
 *           AsyncIterable<Uint8Array>} Body what may be sent
 * @typedef {string | string[]} CommandLine a line for the shell, or words
 * @typedef {number | string} Time seconds, or "5m"
 * @typedef {number | string} Size bytes, or "512M"
 *
 * @typedef {object} Spec what a sandbox is asked for as
 * @property {string} [image]
 * @property {string} [name]
 * @property {Record<string, string | null>} [labels]
 * @property {number | string} [cpus]
 * @property {Size} [memory]
 * @property {Size} [disk]
 * @property {number} [pids]
 * @property {number} [nofile]
 * @property {Time} [timeout]
 * @property {string} [timeoutAction]
 * @property {Time} [idleTimeout]
 * @property {string} [idleAction]
 * @property {Time} [cpuBudget]
 * @property {Size} [outputLimit]
 * @property {string} [autoSnapshot]
 * @property {number} [snapshotKeep]
 * @property {string} [user]
 * @property {string} [workdir]
 * @property {Record<string, string>} [env]
 * @property {Record<string, number>} [ports]
 * @property {Record<string, string | Uint8Array> | object[]} [files]
 * @property {string[]} [start]
 * @property {string[]} [volumes]
 * @property {string[]} [drive]
 * @property {string} [policy]
 * @property {string[]} [allow]
 * @property {string[]} [rules]
 * @property {string[]} [lateRules]
 * @property {string[]} [secrets]
 * @property {string[]} [canaries]
 * @property {boolean} [observe]
 * @property {boolean} [sudo]
 * @property {boolean} [persist]
 * @property {string} [allowMissing]
 *
 * @typedef {{id: string, project: string, image: string, state: string,
 *   name: string | null, labels: Record<string, string>, createdAt: Date,
 *   expiresAt: Date | null, parent?: string, base?: string,
 *   spec: Record<string, any>, usage?: Record<string, number> | null,
 *   ended?: Record<string, any>, raw: any}} SandboxInfo
 *
 * @typedef {object} Result what became of a command
 * @property {string} stdout
 * @property {string} stderr
 * @property {number} exitCode 128 and the signal, if one ended it
 * @property {number | null} signal
 * @property {boolean} timedOut
 * @property {number} lost bytes of output that were not kept
 * @property {boolean} ok
 * @property {Uint8Array} stdoutBytes
 * @property {Uint8Array} stderrBytes
 *
 * @typedef {{stream: 'stdout' | 'stderr', data: Uint8Array,
 *   text: string}} Output a piece of what a command wrote
 *
 * @typedef {{number: number, pid: number, argv: string[], state: string,
 *   tag: string | null, user: string, tty: boolean, startedAt: Date,
 *   exit: any, stdoutEnd: number, stderrEnd: number, raw: any}} ProcessInfo
 *
 * @typedef {{path: string, name: string, type: string, size: number,
 *   mode: string, uid: number, gid: number, user: string | null,
 *   group: string | null, modifiedAt: Date | null, target: string | null,
 *   raw: any}} Entry a file, a directory, or another entry
 *
 * @typedef {{type: string, path: string, to?: string, raw: any}} FileEvent
 * @typedef {{size: number, sha256: string, raw: any}} Written
 * @typedef {{entries: number, bytes: number, notes?: string[],
 *   raw: any}} Unpacked
 *
 * @typedef {{id: string, name: string | null, sandbox: string, image: string,
 *   base: string | null, kind: string, bytes: number, pauseUs: number,
 *   event: number, createdAt: Date, raw: any}} Snapshot
 *
 * @typedef {{path: string, change: 'added' | 'removed' | 'changed',
 *   what?: string[], before?: any, after?: any, raw: any}} Change
 *
 * @typedef {{put: number, removed: number, same: number, kept: number,
 *   conflicts: number, changes: any[], truncated: boolean, dryRun: boolean,
 *   pauseMs: number, raw: any}} MergeResult
 *
 * @typedef {{type: string, id: string, name: string | null,
 *   parent: string | null, state: string | null, createdAt: Date | null,
 *   raw: any}} Node of the lineage of a sandbox
 *
 * @typedef {{name: string, project: string, sha256: string,
 *   sandboxes: string[], updatedAt: Date, text?: string, policy?: any,
 *   raw: any}} Policy
 *
 * @typedef {{verdict: 'allow' | 'deny' | 'ask', part: string | null,
 *   line: number | null, rule: string | null, observed: boolean,
 *   raw: any}} Verdict what a policy says about a request
 *
 * @typedef {{number: number, sandbox: string, name: string | null,
 *   url: string, host: string, method: string, askedAt: Date,
 *   expiresAt: Date, raw: any}} Approval a request that waits for a person
 *
 * @typedef {{state: 'allowed' | 'waiting' | 'denied', why: string,
 *   number: number | null, expiresAt: Date | null,
 *   raw: any}} Access whether a place may be reached
 *
 * @typedef {{id: string, name: string, project: string, size: number,
 *   state: string, sandboxes: string[], createdAt: Date, raw: any}} Volume
 *
 * @typedef {{id: string, name: string, project: string, scope: string,
 *   createdAt: Date, lastUsedAt: Date | null, key?: string,
 *   raw: any}} Key its `key` is there only where it was made
 *
 * @typedef {{id: string, process: number, size: number, createdAt: Date,
 *   raw: any}} Recording of a terminal, as an asciicast
 *
 * @typedef {{name: string, project: string, kind: string, hosts: string[],
 *   env?: string, createdAt: Date, updatedAt: Date, raw: any}} Secret
 *
 * @typedef {{seq: number, type: string, time: string, sandbox?: string,
 *   data?: any, raw: any}} Event an entry of the log
 *
 * @typedef {{name: string, id: string, size: number, entries: number,
 *   createdAt: Date, config?: any, raw: any}} Image
 *
 * @typedef {{path: string, type: string, version: number, removed: boolean,
 *   size: number, sha256: string | null, who: string,
 *   sandbox: string | null, createdAt: Date | null, raw: any}} DriveFile
 *
 * @typedef {{token: string, url: string | null, expiresAt: Date,
 *   raw: any}} PortToken
 *
 * @typedef {{status: number, headers: Record<string, any>,
 *   body: Uint8Array, text: string}} HttpAnswer of a server inside
 */

/** @param {string} name @returns {string} */
function camel(name) {
	return name.replace(/[-_]([a-z])/g, (_, c) => c.toUpperCase());
}

/**
 * The members of an object under our names; what is in them is as it came.
 * @param {any} j
 * @returns {any}
 */
export function record(j) {
	/** @type {Record<string, any>} */
	const out = {};
	for (const [name, value] of Object.entries(j ?? {}))
		out[camel(name)] = value && name.endsWith('_at') ? new Date(value)
			: value;
	Object.defineProperty(out, 'raw', { value: j, enumerable: false });
	return out;
}

/** @param {string | Uint8Array} content @param {string} path */
function file(path, content) {
	return typeof content === 'string' ? { path, content }
		: { path, base64: Buffer.from(content).toString('base64') };
}

/**
 * A spec as the daemon has it: idleTimeout is "idle-timeout", and files may
 * be given as {path: content}.
 * @param {Record<string, any>} [spec]
 */
export function specJson(spec = {}) {
	/** @type {Record<string, any>} */
	const j = {};
	for (const [name, value] of Object.entries(spec))
		if (value !== undefined && value !== null)
			j[name.replace(/[A-Z]/g, (c) => '-' + c.toLowerCase())] = value;
	if (j.files && !Array.isArray(j.files))
		j.files = Object.entries(j.files).map(([p, c]) =>
			file(p, /** @type {any} */ (c)));
	return j;
}

/** @param {Uint8Array} bytes @returns {string} */
export function textOf(bytes) {
	return new TextDecoder().decode(bytes);
}

/**
 * @param {Uint8Array} out
 * @param {Uint8Array} err
 * @param {any} exit null: it was killed and did not end
 * @param {boolean} timedOut
 * @param {number} lost
 * @returns {Result}
 */
export function makeResult(out, err, exit, timedOut, lost) {
	const signal = exit ? exit.signal ?? null : 9;
	const exitCode = exit?.code ?? 128 + (signal ?? 0);
	const result = {
		stdout: textOf(out), stderr: textOf(err), exitCode, signal, timedOut,
		lost, ok: exitCode === 0 && !timedOut,
	};
	// Not when the result is printed.
	return /** @type {Result} */ (Object.defineProperties(result, {
		stdoutBytes: { value: out }, stderrBytes: { value: err },
	}));
}

/**
 * A text that is told in base64 when it is none.
 * @param {any} j
 * @param {string} name
 * @returns {Uint8Array}
 */
function both(j, name) {
	return typeof j[name] === 'string' ? Buffer.from(j[name])
		: Buffer.from(j[`${name}_base64`] ?? '', 'base64');
}

/** @param {any} j @returns {Result} */
export function resultOf(j) {
	const lost = Object.values(j.truncated ?? {})
		.reduce((/** @type {number} */ a, b) => a + Number(b), 0);
	return makeResult(both(j, 'stdout'), both(j, 'stderr'), j.exit,
		Boolean(j.timed_out), lost);
}
