// What can go wrong. Everything that this package throws by itself is a
// CarrelError; what the daemon said is in it.

export class CarrelError extends Error {
	/**
	 * @param {string} message for people
	 * @param {{code?: number, error?: string, request_id?: string,
	 *          [more: string]: any}} [said] by the daemon
	 */
	constructor(message, said = {}) {
		super(said.request_id ? `${message} (request ${said.request_id})`
			: message);
		this.name = new.target.name;
		/** The HTTP status. @type {number | undefined} */
		this.code = said.code;
		/** A stable word. @type {string | undefined} */
		this.error = said.error;
		/** Names the request in the log. @type {string | undefined} */
		this.requestId = said.request_id;
		/** All that came. @type {Record<string, any>} */
		this.details = said;
	}
}

/** The daemon could not be reached, or the connection broke: what was asked
 * for may have been done or not. */
export class ConnectionFailed extends CarrelError {}
/** No connection was made: nothing was asked for. */
export class NotReached extends ConnectionFailed {}
/** It was not done in time. */
export class TimedOut extends CarrelError {}
/** What came is no answer of the daemon. */
export class ProtocolError extends CarrelError {}
/** 400, 422: the request makes no sense; the message says why. */
export class BadRequest extends CarrelError {}
/** 401: no key, or a wrong one. */
export class Unauthorized extends CarrelError {}
/** 403: the key may not do this. */
export class Forbidden extends CarrelError {}
/** 404: there is no such thing. */
export class NotFound extends CarrelError {}
/** 410: the sandbox has ended; the message has the reason. */
export class Ended extends NotFound {}
/** 409: taken, busy, or changed meanwhile. */
export class Conflict extends CarrelError {}
/** Both sides changed the same paths, and nothing was merged. */
export class MergeConflict extends Conflict {
	/** @returns {Record<string, any>[]} */
	get conflicts() {
		return this.details.conflicts ?? [];
	}
}
/** 412: the file has another version. */
export class VersionMismatch extends Conflict {}
/** 429: as many as there may be. */
export class LimitReached extends CarrelError {}
/** 507: the project or the disk is full. */
export class NoSpace extends CarrelError {}
/** Another 5xx. */
export class ServerError extends CarrelError {}
/** 503: not now; trying again may help. */
export class Unavailable extends ServerError {}

/** A command that was to succeed did not. */
export class CommandError extends CarrelError {
	/**
	 * @param {string} message
	 * @param {import('./data.js').Result} result
	 */
	constructor(message, result) {
		super(message);
		/** What became of it. */
		this.result = result;
	}
}

/** @type {Record<number, typeof CarrelError>} */
const statuses = {
	400: BadRequest, 401: Unauthorized, 403: Forbidden, 404: NotFound,
	409: Conflict, 410: Ended, 412: VersionMismatch, 422: BadRequest,
	429: LimitReached, 503: Unavailable, 507: NoSpace,
};

/**
 * The error for an answer that is none of success.
 * @param {number} status
 * @param {any} [body]
 * @returns {CarrelError}
 */
export function fromAnswer(status, body) {
	const said = body && typeof body === 'object' ? body : {};
	let kind = statuses[status] ?? (status >= 500 ? ServerError : CarrelError);
	if (said.error === 'merge_conflict')
		kind = MergeConflict;
	return new kind(String(said.message ?? `the daemon answered ${status}`),
		{ ...said, code: status });
}
