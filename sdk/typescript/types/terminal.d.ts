/**
 * @param {import('./link.js').Link} link
 * @param {string} box
 * @param {TerminalOptions} o
 * @returns {Promise<Terminal>}
 */
export function openTerminal(link: import("./link.js").Link, box: string, o: TerminalOptions): Promise<Terminal>;
/** A terminal: iterate over it for what it shows. close() leaves its process
 * running, and terminal({process}) comes back to it. */
export class Terminal {
    /** @param {any} socket @param {Uint8Array} head @internal */
    constructor(socket: any, head: Uint8Array);
    /** Of its process. */
    number: number;
    pid: number;
    /** Bytes that were not kept. */
    lost: number;
    /** null while it runs. @returns {number | null} */
    get exitCode(): number | null;
    /** @internal @returns {Promise<void>} */
    started(): Promise<void>;
    /**
     * What it shows next, nothing when its process has exited; TimedOut if
     * nothing comes in so many seconds.
     * @param {{timeout?: number}} [o]
     * @returns {Promise<Uint8Array>}
     */
    read(o?: {
        timeout?: number;
    }): Promise<Uint8Array>;
    /**
     * What it shows up to and with this text.
     * @param {string | Uint8Array} text
     * @param {{timeout?: number}} [o]
     * @returns {Promise<string>}
     */
    readUntil(text: string | Uint8Array, o?: {
        timeout?: number;
    }): Promise<string>;
    /**
     * What it shows until its process exits.
     * @param {{timeout?: number}} [o]
     * @returns {Promise<string>}
     */
    readAll(o?: {
        timeout?: number;
    }): Promise<string>;
    /**
     * Types it.
     * @param {string | Uint8Array} data
     */
    write(data: string | Uint8Array): Promise<void>;
    /**
     * Another size for it.
     * @param {number} rows
     * @param {number} cols
     */
    resize(rows: number, cols: number): Promise<void>;
    /**
     * A signal for its process ("INT", or a number).
     * @param {number | string} signal
     */
    signal(signal: number | string): Promise<void>;
    /** Leaves; its process runs on. */
    close(): void;
    /** @returns {AsyncGenerator<Uint8Array, void, void>} */
    [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, void>;
    #private;
}
export type TerminalOptions = {
    /**
     * a line for the shell; else a login shell
     */
    command?: string | undefined;
    rows?: number | undefined;
    cols?: number | undefined;
    cwd?: string | undefined;
    user?: string | undefined;
    tag?: string | undefined;
    /**
     * keep what it shows, as an asciicast
     */
    record?: boolean | undefined;
    /**
     * back to one that was left
     */
    process?: number | undefined;
};
