// The host: events, images, policies, approvals, secrets, the drive.
import { record, resultOf, specJson } from './data.js';
import { CarrelError, ConnectionFailed, TimedOut, Unavailable } from
	'./errors.js';
import { Link, lines, pieces, segment, sleep } from './link.js';
import { seal } from './seal.js';
import { Stream } from './stream.js';

/**
 * @typedef {import('./data.js').Body} Body
 * @typedef {{project?: string}} OfProject
 * @typedef {string | {id: string}} State a sandbox or a snapshot, or its name
 */

/** @param {State | undefined | null} state @returns {any} */
export function idOf(state) {
	return state && typeof state === 'object' ? state.id : state;
}

class Part {
	/** @param {Link} link */
	constructor(link) {
		/** @protected */
		this.link = link;
	}
}

/** Images that sandboxes start from. */
export class Images extends Part {
	/** @returns {Promise<import('./data.js').Image[]>} */
	async list() {
		return (await this.link.get('/v1/images')).images.map(record);
	}

	/**
	 * One of them, with what it wants of its processes.
	 * @param {string} name
	 * @returns {Promise<import('./data.js').Image>}
	 */
	async get(name) {
		return record(await this.link.get(`/v1/images/${segment(name)}`));
	}

	/**
	 * Makes an image of a tar: a root file system, an OCI layout or a docker
	 * archive.
	 * @param {string} name
	 * @param {Body} tar
	 * @returns {Promise<import('./data.js').Image>}
	 */
	async put(name, tar) {
		return record(await this.link.ask({ method: 'PUT', body: tar,
			path: `/v1/images/${segment(name)}`, timeout: null,
			headers: { 'Content-Type': 'application/x-tar' } }));
	}

	/**
	 * Makes an image of one in a registry that the operator allows.
	 * @param {string} name
	 * @param {string} reference
	 * @param {{platform?: string, username?: string, password?: string}} [o]
	 * @returns {Promise<import('./data.js').Image>}
	 */
	async pull(name, reference, o = {}) {
		return record(await this.link.post(`/v1/images/${segment(name)}/pull`,
			{ reference, ...o }, { timeout: null }));
	}

	/**
	 * An image as a tar, piece by piece.
	 * @param {string} name
	 * @param {{format?: 'oci' | 'docker' | 'rootfs'}} [o]
	 * @returns {AsyncGenerator<Uint8Array, void, void>}
	 */
	async *export(name, o = {}) {
		yield* pieces(await this.link.open({ method: 'GET', query: { ...o },
			path: `/v1/images/${segment(name)}/export`, timeout: null }));
	}

	/**
	 * Makes an image of a sandbox's or a snapshot's disk.
	 * @param {string} name
	 * @param {State} state
	 * @returns {Promise<import('./data.js').Image>}
	 */
	async save(name, state) {
		return record(await this.link.post(`/v1/images/${segment(name)}`,
			{ snapshot: idOf(state) }, { timeout: null }));
	}

	/**
	 * Removes an image that no sandbox uses.
	 * @param {string} name
	 * @returns {Promise<void>}
	 */
	async remove(name) {
		await this.link.ask({ method: 'DELETE',
			path: `/v1/images/${segment(name)}` });
	}
}

/** Snapshots of all sandboxes, also of those that have ended. */
export class Snapshots extends Part {
	/**
	 * The oldest first.
	 * @param {{sandbox?: string, name?: string}} [o]
	 * @returns {Promise<import('./data.js').Snapshot[]>}
	 */
	async list(o = {}) {
		return (await this.link.get('/v1/snapshots', o)).snapshots.map(record);
	}

	/**
	 * One of them, by id or name.
	 * @param {string} ref
	 * @returns {Promise<import('./data.js').Snapshot>}
	 */
	async get(ref) {
		return record(await this.link.get(`/v1/snapshots/${segment(ref)}`));
	}

	/**
	 * Removes one; what started from it stays.
	 * @param {State} ref
	 * @returns {Promise<void>}
	 */
	async remove(ref) {
		await this.link.ask({ method: 'DELETE',
			path: `/v1/snapshots/${segment(idOf(ref))}` });
	}
}

/** What sandboxes may reach. */
export class Policies extends Part {
	/**
	 * Makes or changes a policy, as text or JSON: in force at once for all
	 * sandboxes that have it.
	 * @param {string} name
	 * @param {string | object} policy
	 * @param {OfProject} [o]
	 * @returns {Promise<import('./data.js').Policy>}
	 */
	async set(name, policy, o = {}) {
		return record(await this.link.ask({ method: 'PUT', query: { ...o },
			path: `/v1/policies/${segment(name)}`,
			body: typeof policy === 'string' ? Buffer.from(policy)
				: JSON.stringify(policy),
			headers: { 'Content-Type': 'text/plain' } }));
	}

	/**
	 * A policy, as text and as JSON.
	 * @param {string} name
	 * @param {OfProject} [o]
	 * @returns {Promise<import('./data.js').Policy>}
	 */
	async get(name, o = {}) {
		return record(await this.link.get(`/v1/policies/${segment(name)}`, o));
	}

	/**
	 * All policies, without what they say.
	 * @returns {Promise<import('./data.js').Policy[]>}
	 */
	async list() {
		return (await this.link.get('/v1/policies')).policies.map(record);
	}

	/**
	 * Removes a policy that no sandbox has.
	 * @param {string} name
	 * @param {OfProject} [o]
	 * @returns {Promise<void>}
	 */
	async remove(name, o = {}) {
		await this.link.ask({ method: 'DELETE', query: { ...o },
			path: `/v1/policies/${segment(name)}` });
	}

	/**
	 * What becomes of a request: under all policies of a sandbox, a policy by
	 * its name, or a text. Nothing is sent anywhere.
	 * @param {string} url
	 * @param {{method?: string, sandbox?: State, policy?: string,
	 *   text?: string}} o
	 * @returns {Promise<import('./data.js').Verdict>}
	 */
	async test(url, o) {
		return record(await this.link.post('/v1/policy-test', { url,
			method: o.method ?? 'GET', sandbox: idOf(o.sandbox),
			policy: o.policy, text: o.text }, { repeat: true }));
	}
}

/** Requests of sandboxes that wait for a person. */
export class Approvals extends Part {
	/** @returns {Promise<import('./data.js').Approval[]>} */
	async list() {
		return (await this.link.get('/v1/approvals')).approvals.map(record);
	}

	/** @param {number | {number: number}} a @param {object} body */
	async #decide(a, body) {
		const number = typeof a === 'number' ? a : a.number;
		await this.link.post(`/v1/approvals/${number}`, body);
	}

	/**
	 * Lets it pass; with `duration` ("1h", seconds, "always") all of its host
	 * for so long.
	 * @param {number | {number: number}} approval
	 * @param {{duration?: import('./data.js').Time}} [o]
	 */
	approve(approval, o = {}) {
		return this.#decide(approval, { allow: true,
			for: o.duration === undefined ? undefined : String(o.duration) });
	}

	/**
	 * Refuses it.
	 * @param {number | {number: number}} approval
	 */
	deny(approval) {
		return this.#decide(approval, { allow: false });
	}
}

/**
 * @typedef {object} SecretOptions
 * @property {string[]} hosts where it may go
 * @property {string} [kind] header, basic, query, aws, oauth2 or totp
 * @property {string} [env] the variable inside that has the placeholder
 * @property {string} [field] of the head; "Authorization"
 * @property {string} [template] of the field's value; "Bearer {}"
 * @property {string} [user]
 * @property {string[]} [methods]
 * @property {string} [path]
 * @property {string} [region]
 * @property {string} [service]
 * @property {string} [tokenUrl]
 * @property {string} [scope]
 * @property {string} [project]
 */

/** Values that the gate adds to requests, and that no sandbox sees. */
export class Secrets extends Part {
	/**
	 * Sets one. It is sealed before it leaves: nobody on the way can read it.
	 * @param {string} name
	 * @param {string | Uint8Array} value
	 * @param {SecretOptions} o
	 * @returns {Promise<import('./data.js').Secret>}
	 */
	async set(name, value, o) {
		const { project, tokenUrl, hosts, ...about } = o;
		const query = { project };
		about.kind ??= 'header';
		if (about.kind === 'header' && !about.field) {
			about.field = 'Authorization';
			about.template ??= 'Bearer {}';
		}
		const key = await this.link.get('/v1/vault/key', query);
		let spelled = hosts.map((h) =>
			h.replace(/^https:\/\//, '').toLowerCase());
		for (let i = 0; i < 2; i++) {
			const places = [name, ...spelled, ...(tokenUrl ? [tokenUrl] : [])];
			const sealed = seal(Buffer.concat([
				Buffer.from(places.join(' ') + '\n'), Buffer.from(value)]),
			Buffer.from(key.public_key, 'base64'));
			const secret = record(await this.link.ask({ method: 'PUT', query,
				path: `/v1/secrets/${segment(name)}`, json: { ...about,
					hosts: spelled, token_url: tokenUrl,
					sealed: sealed.toString('base64') } }));
			// Hosts have one spelling, and it is what they must be sealed
			// with.
			if (String(secret.hosts) === String(spelled))
				return secret;
			spelled = secret.hosts;
		}
		throw new CarrelError(`the hosts of secret ${name} change their ` +
			'spelling');
	}

	/**
	 * All secrets, without their values.
	 * @returns {Promise<import('./data.js').Secret[]>}
	 */
	async list() {
		return (await this.link.get('/v1/secrets')).secrets.map(record);
	}

	/**
	 * Removes one: it leaves no more from now on.
	 * @param {string} name
	 * @param {OfProject} [o]
	 * @returns {Promise<void>}
	 */
	async remove(name, o = {}) {
		await this.link.ask({ method: 'DELETE', query: { ...o },
			path: `/v1/secrets/${segment(name)}` });
	}
}

/** @param {string} path */
function drivePath(path, what = 'files') {
	const parts = path.replace(/^\/+/, '').split('/').map(encodeURIComponent);
	return `/v1/drive/${what}/${parts.join('/')}`;
}

/** Files of a project that outlive its sandboxes. */
export class Drive extends Part {
	/**
	 * Writes a new version of a file. With `version` only in place of that
	 * one, with `new` only if there is none: else VersionMismatch.
	 * @param {string} path
	 * @param {Body} data
	 * @param {OfProject & {version?: number, new?: boolean}} [o]
	 * @returns {Promise<import('./data.js').DriveFile>}
	 */
	async put(path, data, o = {}) {
		/** @type {Record<string, string>} */
		const headers = { 'Content-Type': 'application/octet-stream' };
		if (o.version !== undefined)
			headers['If-Match'] = `"${o.version}"`;
		if (o.new)
			headers['If-None-Match'] = '*';
		return record(await this.link.ask({ method: 'PUT', body: data, headers,
			path: drivePath(path), query: { project: o.project },
			timeout: null }));
	}

	/**
	 * The bytes of a file.
	 * @param {string} path
	 * @param {OfProject & {version?: number}} [o]
	 * @returns {Promise<Uint8Array>}
	 */
	get(path, o = {}) {
		return this.link.bytes({ method: 'GET', path: drivePath(path),
			query: { ...o } });
	}

	/**
	 * Files whose path starts so.
	 * @param {string} [prefix]
	 * @param {OfProject & {recursive?: boolean}} [o]
	 * @returns {Promise<import('./data.js').DriveFile[]>}
	 */
	async list(prefix, o = {}) {
		const found = [];
		let after;
		do {
			/** @type {any} */
			const j = await this.link.get('/v1/drive', { prefix, after,
				recursive: o.recursive ?? true, project: o.project });
			found.push(...j.entries.map(record));
			after = j.next;
		} while (after);
		return found;
	}

	/**
	 * Versions of a file, the newest first.
	 * @param {string} path
	 * @param {OfProject} [o]
	 * @returns {Promise<import('./data.js').DriveFile[]>}
	 */
	async versions(path, o = {}) {
		const j = await this.link.get(drivePath(path, 'versions'), { ...o });
		return j.versions.map(record);
	}

	/**
	 * Removes a file; its versions stay until they are purged.
	 * @param {string} path
	 * @param {OfProject & {purge?: boolean}} [o]
	 * @returns {Promise<void>}
	 */
	async remove(path, o = {}) {
		await this.link.ask({ method: 'DELETE', path: drivePath(path),
			query: { project: o.project, purge: o.purge || undefined } });
	}
}

/** Disks that sandboxes are launched with: volumes: ['NAME:/PATH']. */
export class Volumes extends Part {
	/**
	 * @param {string} name
	 * @param {OfProject & {size?: import('./data.js').Size}} [o]
	 * @returns {Promise<import('./data.js').Volume>}
	 */
	async create(name, o = {}) {
		return record(await this.link.post('/v1/volumes', { name, ...o },
			{ timeout: null }));
	}

	/** @returns {Promise<import('./data.js').Volume[]>} */
	async list() {
		return (await this.link.get('/v1/volumes')).volumes.map(record);
	}

	/**
	 * One of them, by id or name.
	 * @param {string} ref
	 * @returns {Promise<import('./data.js').Volume>}
	 */
	async get(ref) {
		return record(await this.link.get(`/v1/volumes/${segment(ref)}`));
	}

	/**
	 * Removes one that no sandbox has.
	 * @param {State} ref
	 * @returns {Promise<void>}
	 */
	async remove(ref) {
		await this.link.ask({ method: 'DELETE', timeout: null,
			path: `/v1/volumes/${segment(idOf(ref))}` });
	}
}

/** Keys for clients on other machines. */
export class Keys extends Part {
	/**
	 * A key for read, use, approve, policy or admin; this is the only time it is shown.
	 * @param {string} [name]
	 * @param {OfProject & {scope?: 'read' | 'use' | 'approve' | 'policy' | 'admin'}} [o]
	 * @returns {Promise<import('./data.js').Key>}
	 */
	async create(name, o = {}) {
		return record(await this.link.post('/v1/keys', { name, ...o }));
	}

	/** @returns {Promise<import('./data.js').Key[]>} */
	async list() {
		return (await this.link.get('/v1/keys')).keys.map(record);
	}

	/**
	 * From now on it opens nothing.
	 * @param {State} key
	 * @returns {Promise<void>}
	 */
	async remove(key) {
		await this.link.ask({ method: 'DELETE',
			path: `/v1/keys/${segment(idOf(key))}` });
	}
}

/**
 * @typedef {object} EventOptions
 * @property {number} [after] behind this entry; 0 is from the start
 * @property {string} [sandbox]
 * @property {string} [type] the start of their type
 * @property {boolean} [follow] false: only those that are there
 * @property {number} [limit]
 */

/** Entries of the log. When the connection breaks it goes on behind the last
 * one that was seen; before the first, behind those that the log had at the
 * start. */
class Entries {
	/** @param {Link} link @param {EventOptions} o */
	constructor(link, o) {
		this.link = link;
		this.o = { ...o, follow: o.follow ?? true };
		/** @type {any} */
		this.answer = null;
		this.over = false;
		/** @type {number | undefined} */
		this.had = undefined;
	}

	async open() {
		if (this.o.after === undefined && this.had !== undefined)
			this.o.after = this.had;
		else if (this.o.after === undefined)
			this.had = (await this.link.get('/v1/host')).log.entries;
		this.answer = await this.link.open({ method: 'GET',
			path: '/v1/events', query: this.o });
	}

	/** @returns {AsyncGenerator<import('./data.js').Event, void, void>} */
	async *all() {
		let delays = this.link.delays();
		while (!this.over && this.o.limit !== 0) {
			try {
				if (!this.answer)
					await this.open();
				for await (const j of lines(this.answer)) {
					this.o.after = j.seq;
					if (this.o.limit !== undefined)
						this.o.limit--;
					delays = this.link.delays();
					yield record(j);
				}
				if (!this.o.follow)
					return;
			} catch (e) {
				if (this.over)
					return;
				if (!(e instanceof ConnectionFailed || e instanceof TimedOut ||
				    e instanceof Unavailable) || !delays.length)
					throw e;
			}
			this.answer = null;
			await sleep(delays.shift() ?? 1000);
		}
	}

	close() {
		this.over = true;
		this.answer?.destroy();
	}
}

/** A daemon. Without options it is the one that CARREL_URL (with
 * CARREL_API_KEY) or CARREL_SOCKET names, or the one of this host. */
export class Client {
	/** @param {import('./link.js').LinkOptions} [options] */
	constructor(options = {}) {
		/** @internal */
		this.link = new Link(options);
		this.images = new Images(this.link);
		this.snapshots = new Snapshots(this.link);
		this.policies = new Policies(this.link);
		this.approvals = new Approvals(this.link);
		this.secrets = new Secrets(this.link);
		this.drive = new Drive(this.link);
		this.volumes = new Volumes(this.link);
		this.keys = new Keys(this.link);
	}

	/**
	 * A command in a sandbox that is made for it, of this spec, and gone when
	 * it has ended.
	 * @param {import('./data.js').CommandLine} cmd
	 * @param {{spec?: import('./data.js').Spec, cwd?: string, user?: string,
	 *   env?: Record<string, string>, timeout?: number, input?: string,
	 *   maxOutput?: number}} [o]
	 * @returns {Promise<import('./data.js').Result>}
	 */
	async run(cmd, o = {}) {
		const { spec, maxOutput, ...more } = o;
		return resultOf(await this.link.post('/v1/run', {
			...(typeof cmd === 'string' ? { command: cmd } : { argv: cmd }),
			spec: specJson(spec), max_output: maxOutput, ...more },
		{ timeout: null }));
	}

	/**
	 * The kill switch: ends all sandboxes (of the key's project).
	 * @returns {Promise<number>} how many
	 */
	async killAll() {
		return (await this.link.ask({ method: 'DELETE', timeout: null,
			path: '/v1/sandboxes', query: { all: true } })).removed;
	}

	/**
	 * What the host and its sandboxes use now.
	 * @returns {Promise<Record<string, any>>}
	 */
	stats() {
		return this.link.get('/v1/stats');
	}

	/**
	 * What sandboxes have used, and the sums of projects.
	 * @param {OfProject & {sandbox?: string, since?: string,
	 *   until?: string}} [o]
	 * @returns {Promise<Record<string, any>>}
	 */
	usage(o = {}) {
		return this.link.get('/v1/usage', o);
	}

	/**
	 * What the host is and offers.
	 * @returns {Promise<Record<string, any>>}
	 */
	host() {
		return this.link.get('/v1/host');
	}

	/**
	 * Entries of the log: from now on, or behind `after`. When this is
	 * resolved it has begun to listen.
	 * @param {EventOptions} [o]
	 * @returns {Promise<Stream<import('./data.js').Event>>}
	 */
	async events(o = {}) {
		const entries = new Entries(this.link, o);
		await entries.open();
		return new Stream(entries.all(), () => entries.close());
	}

	/** Ends connections that are kept. */
	close() {
		this.link.close();
	}
}
