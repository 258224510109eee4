/**
 * The error for an answer that is none of success.
 * @param {number} status
 * @param {any} [body]
 * @returns {CarrelError}
 */
export function fromAnswer(status: number, body?: any): CarrelError;
export class CarrelError extends Error {
    /**
     * @param {string} message for people
     * @param {{code?: number, error?: string, request_id?: string,
     *          [more: string]: any}} [said] by the daemon
     */
    constructor(message: string, said?: {
        code?: number;
        error?: string;
        request_id?: string;
        [more: string]: any;
    });
    /** The HTTP status. @type {number | undefined} */
    code: number | undefined;
    /** A stable word. @type {string | undefined} */
    error: string | undefined;
    /** Names the request in the log. @type {string | undefined} */
    requestId: string | undefined;
    /** All that came. @type {Record<string, any>} */
    details: Record<string, any>;
}
/** The daemon could not be reached, or the connection broke: what was asked
 * for may have been done or not. */
export class ConnectionFailed extends CarrelError {
}
/** No connection was made: nothing was asked for. */
export class NotReached extends ConnectionFailed {
}
/** It was not done in time. */
export class TimedOut extends CarrelError {
}
/** What came is no answer of the daemon. */
export class ProtocolError extends CarrelError {
}
/** 400, 422: the request makes no sense; the message says why. */
export class BadRequest extends CarrelError {
}
/** 401: no key, or a wrong one. */
export class Unauthorized extends CarrelError {
}
/** 403: the key may not do this. */
export class Forbidden extends CarrelError {
}
/** 404: there is no such thing. */
export class NotFound extends CarrelError {
}
/** 410: the sandbox has ended; the message has the reason. */
export class Ended extends NotFound {
}
/** 409: taken, busy, or changed meanwhile. */
export class Conflict extends CarrelError {
}
/** Both sides changed the same paths, and nothing was merged. */
export class MergeConflict extends Conflict {
    /** @returns {Record<string, any>[]} */
    get conflicts(): Record<string, any>[];
}
/** 412: the file has another version. */
export class VersionMismatch extends Conflict {
}
/** 429: as many as there may be. */
export class LimitReached extends CarrelError {
}
/** 507: the project or the disk is full. */
export class NoSpace extends CarrelError {
}
/** Another 5xx. */
export class ServerError extends CarrelError {
}
/** 503: not now; trying again may help. */
export class Unavailable extends ServerError {
}
/** A command that was to succeed did not. */
export class CommandError extends CarrelError {
    /**
     * @param {string} message
     * @param {import('./data.js').Result} result
     */
    constructor(message: string, result: import("./data.js").Result);
    /** What became of it. */
    result: import("./data.js").Result;
}
