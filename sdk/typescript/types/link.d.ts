/**
 * @typedef {object} LinkOptions
 * @property {string} [url] of a daemon that listens; else CARREL_URL
 * @property {string} [apiKey] else CARREL_API_KEY
 * @property {string} [socket] else CARREL_SOCKET, or the one of this host
 * @property {string} [ca] a file with the authority of its certificate
 * @property {number} [timeout] seconds that an answer may take
 * @property {number} [retries] of what is safe to repeat
 *
 * @typedef {object} Ask
 * @property {string} method
 * @property {string} path
 * @property {Record<string, any>} [query]
 * @property {any} [json]
 * @property {import('./data.js').Body} [body]
 * @property {Record<string, string>} [headers]
 * @property {number | null} [timeout] null: as long as it takes
 * @property {boolean} [repeat] if it is not what the method says
 * @property {AbortSignal} [signal]
 * @property {boolean} [upgrade]
 */
/** @param {number} ms @returns {Promise<void>} */
export function sleep(ms: number): Promise<void>;
/**
 * A name or id as a part of a path.
 * @param {string | number} word
 */
export function segment(word: string | number): string;
/**
 * The body, piece by piece. Whoever stops in between closes the connection.
 * @param {any} answer
 * @returns {AsyncGenerator<Uint8Array, void, void>}
 */
export function pieces(answer: any): AsyncGenerator<Uint8Array, void, void>;
/**
 * JSON, a line each; pings are left out.
 * @param {any} answer
 * @returns {AsyncGenerator<any, void, void>}
 */
export function lines(answer: any): AsyncGenerator<any, void, void>;
/** What all requests of a client share. */
export class Link {
    /** @param {LinkOptions} [o] */
    constructor(o?: LinkOptions);
    /** @type {string | undefined} */
    apiKey: string | undefined;
    timeout: number;
    retries: number;
    /** The start of URLs; null where there are none.
     * @type {string | null} */
    base: string | null;
    /** @type {Record<string, any>} */
    to: Record<string, any>;
    /** @type {any} */
    module: any;
    at: any;
    /** @type {any} */
    agent: any;
    close(): void;
    /** Before each repeat: longer each time, and never the same for two. */
    delays(): number[];
    /**
     * One try: the answer with its body unread, whatever it is.
     * @param {Ask} ask
     * @returns {Promise<any>} an IncomingMessage; of an upgrade [it, socket,
     * head]
     */
    once(ask: Ask): Promise<any>;
    /**
     * An answer of success, its body unread.
     * @param {Ask} ask
     * @returns {Promise<any>}
     */
    open(ask: Ask): Promise<any>;
    /**
     * All bytes of an answer.
     * @param {Ask} ask
     * @returns {Promise<Uint8Array>}
     */
    bytes(ask: Ask): Promise<Uint8Array>;
    /**
     * The JSON of an answer; null when it has none.
     * @param {Ask} ask
     * @returns {Promise<any>}
     */
    ask(ask: Ask): Promise<any>;
    /**
     * @param {string} path
     * @param {Record<string, any>} [query]
     */
    get(path: string, query?: Record<string, any>): Promise<any>;
    /**
     * @param {string} path
     * @param {any} [json] members that are undefined are left out
     * @param {Partial<Ask>} [more]
     */
    post(path: string, json?: any, more?: Partial<Ask>): Promise<any>;
    #private;
}
export type LinkOptions = {
    /**
     * of a daemon that listens; else CARREL_URL
     */
    url?: string | undefined;
    /**
     * else CARREL_API_KEY
     */
    apiKey?: string | undefined;
    /**
     * else CARREL_SOCKET, or the one of this host
     */
    socket?: string | undefined;
    /**
     * a file with the authority of its certificate
     */
    ca?: string | undefined;
    /**
     * seconds that an answer may take
     */
    timeout?: number | undefined;
    /**
     * of what is safe to repeat
     */
    retries?: number | undefined;
};
export type Ask = {
    method: string;
    path: string;
    query?: Record<string, any> | undefined;
    json?: any;
    body?: import("./data.js").Body | undefined;
    headers?: Record<string, string> | undefined;
    /**
     * null: as long as it takes
     */
    timeout?: number | null | undefined;
    /**
     * if it is not what the method says
     */
    repeat?: boolean | undefined;
    signal?: AbortSignal | undefined;
    upgrade?: boolean | undefined;
};
