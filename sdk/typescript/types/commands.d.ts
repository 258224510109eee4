/**
 * @param {import('./link.js').Link} link
 * @param {string} box its path
 * @param {CommandLine} cmd
 * @param {RunOptions} o
 * @returns {Promise<Result>}
 */
export function run(link: import("./link.js").Link, box: string, cmd: CommandLine, o: RunOptions): Promise<Result>;
/**
 * @template T
 * @param {number | undefined} until
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
export function before<T>(until: number | undefined, promise: Promise<T>): Promise<T>;
/** @param {unknown} e */
export function isLate(e: unknown): e is Late;
/**
 * A command that was started: iterate over it for its output, or wait() for
 * its end. When the connection breaks it comes back with the offsets that it
 * has: no byte is missed or seen twice. close() leaves it running.
 */
export class Command {
    /**
     * @param {import('./link.js').Link} link
     * @param {string} box
     * @param {{body?: any, ref?: number | string, callbacks?: Callbacks}} o
     * @internal
     */
    constructor(link: import("./link.js").Link, box: string, o: {
        body?: any;
        ref?: number | string;
        callbacks?: Callbacks;
    });
    /** Names it in its sandbox. */
    number: number;
    /** As the sandbox sees it. */
    pid: number;
    /** @type {string | null} */
    tag: string | null;
    /** @internal @returns {Promise<void>} */
    open(): Promise<void>;
    /**
     * Waits for its end; TimedOut if it still runs after so many seconds.
     * @param {{timeout?: number, check?: boolean}} [o]
     * @returns {Promise<Result>}
     */
    wait(o?: {
        timeout?: number;
        check?: boolean;
    }): Promise<Result>;
    /**
     * Bytes for its standard input; with eof none follow.
     * @param {Body} data
     * @param {{eof?: boolean}} [o]
     * @returns {Promise<void>}
     */
    write(data: Body, o?: {
        eof?: boolean;
    }): Promise<void>;
    /** No more input. */
    closeStdin(): Promise<void>;
    /**
     * Sends a signal; no error if it has exited.
     * @param {number | string} [signal]
     */
    kill(signal?: number | string): Promise<void>;
    /**
     * Another size for its terminal.
     * @param {number} rows
     * @param {number} cols
     * @returns {Promise<void>}
     */
    resize(rows: number, cols: number): Promise<void>;
    /** Leaves; the command runs on. */
    close(): void;
    /** @returns {AsyncGenerator<Output, void, void>} */
    [Symbol.asyncIterator](): AsyncGenerator<Output, void, void>;
    #private;
}
export class Commands {
    /** @param {import('./link.js').Link} link @param {string} box */
    constructor(link: import("./link.js").Link, box: string);
    /**
     * Starts a command and goes on. Iterate over it for its output, or wait()
     * for its end; callbacks are called while one of the two is done. A `tag`
     * is a name to find it by. A command that writes much waits until it is
     * read, unless it is `detach`ed: then the oldest output is dropped.
     * @param {CommandLine} cmd
     * @param {StartOptions} [o]
     * @returns {Promise<Command>}
     */
    start(cmd: CommandLine, o?: StartOptions): Promise<Command>;
    /**
     * A command that was started before, by its number or tag; its output
     * from the oldest that was kept.
     * @param {number | string} ref
     * @param {Callbacks} [o]
     * @returns {Promise<Command>}
     */
    attach(ref: number | string, o?: Callbacks): Promise<Command>;
    /**
     * Those that run, and those that exited lately.
     * @returns {Promise<import('./data.js').ProcessInfo[]>}
     */
    list(): Promise<import("./data.js").ProcessInfo[]>;
    /**
     * Sends a signal to a process, by number or tag, and its group. No error
     * if it has exited already.
     * @param {number | string} ref
     * @param {number | string} [signal]
     */
    kill(ref: number | string, signal?: number | string): Promise<void>;
    #private;
}
export type Body = import("./data.js").Body;
export type CommandLine = import("./data.js").CommandLine;
export type Output = import("./data.js").Output;
export type Result = import("./data.js").Result;
export type CommandOptions = {
    cwd?: string | undefined;
    env?: Record<string, string> | undefined;
    user?: string | undefined;
    onStdout?: ((text: string) => unknown) | undefined;
    onStderr?: ((text: string) => unknown) | undefined;
};
export type RunOptions = CommandOptions & {
    check?: boolean;
    timeout?: number;
    input?: string | Uint8Array;
    maxOutput?: number;
    signal?: AbortSignal;
};
export type StartOptions = CommandOptions & {
    stdin?: boolean;
    tty?: boolean;
    rows?: number;
    cols?: number;
    tag?: string;
    detach?: boolean;
};
export type Callbacks = Pick<CommandOptions, "onStdout" | "onStderr">;
declare class Late extends Error {
}
export {};
