/**
 * @typedef {import('./data.js').SandboxInfo} SandboxInfo
 * @typedef {import('./data.js').Spec} Spec
 * @typedef {import('./client.js').State} State
 * @typedef {{client?: Client}} WithClient
 */
/** A machine of its own. With `await using` it is killed at the end of the
 * block. */
export class Sandbox {
    /**
     * Makes one, of an image or from a snapshot.
     * @param {Spec & WithClient & {snapshot?: State}} [spec]
     * @returns {Promise<Sandbox>}
     */
    static create(spec?: Spec & WithClient & {
        snapshot?: State;
    }): Promise<Sandbox>;
    /**
     * One that there is, by id or name.
     * @param {string} ref
     * @param {WithClient} [o]
     * @returns {Promise<Sandbox>}
     */
    static connect(ref: string, { client }?: WithClient): Promise<Sandbox>;
    /**
     * All there are, or those that fit; connect() to one by its id.
     * @param {WithClient & {label?: string, state?: string, name?: string,
     *   project?: string}} [o]
     * @returns {Promise<SandboxInfo[]>}
     */
    static list({ client, ...query }?: WithClient & {
        label?: string;
        state?: string;
        name?: string;
        project?: string;
    }): Promise<SandboxInfo[]>;
    /**
     * One that there is; connect() looks whether it is.
     * @param {Client} client
     * @param {string} id
     */
    constructor(client: Client, id: string);
    client: Client;
    id: string;
    commands: Commands;
    files: Files;
    /**
     * Runs a command to its end: a line for the shell, or a list of words.
     * With `check` a failure throws CommandError. After `timeout` seconds it
     * is killed. Callbacks get the output as it comes.
     * @param {import('./data.js').CommandLine} cmd
     * @param {import('./commands.js').RunOptions} [o]
     * @returns {Promise<import('./data.js').Result>}
     */
    run(cmd: import("./data.js").CommandLine, o?: import("./commands.js").RunOptions): Promise<import("./data.js").Result>;
    /**
     * A terminal with a shell, or with `command`; with `process` back to one
     * that was left. Iterate over it for what it shows.
     * @param {import('./terminal.js').TerminalOptions} [o]
     * @returns {Promise<import('./terminal.js').Terminal>}
     */
    terminal(o?: import("./terminal.js").TerminalOptions): Promise<import("./terminal.js").Terminal>;
    /**
     * What it is now.
     * @returns {Promise<SandboxInfo>}
     */
    info(): Promise<SandboxInfo>;
    /**
     * Ends it: no process is left when this is resolved. No error if it has
     * ended already.
     * @returns {Promise<void>}
     */
    kill(): Promise<void>;
    /**
     * Stops it where it is; the next use wakes it. With diskOnly its
     * processes end and only the disk stays.
     * @param {{diskOnly?: boolean}} [o]
     * @returns {Promise<SandboxInfo>}
     */
    pause(o?: {
        diskOnly?: boolean;
    }): Promise<SandboxInfo>;
    /**
     * Lets it go on.
     * @returns {Promise<SandboxInfo>}
     */
    resume(): Promise<SandboxInfo>;
    /**
     * Changes what may be changed while it lives: labels, limits, policies. A
     * label that is null is removed.
     * @param {Spec} change
     * @returns {Promise<SandboxInfo>}
     */
    update(change: Spec): Promise<SandboxInfo>;
    /**
     * It ends so many seconds from now (or "5m"); 0 is never.
     * @param {import('./data.js').Time} timeout
     */
    setTimeout(timeout: import("./data.js").Time): Promise<import("./data.js").SandboxInfo>;
    /**
     * Keeps its disk as it is now; it goes on running.
     * @param {string} [name]
     * @returns {Promise<import('./data.js').Snapshot>}
     */
    snapshot(name?: string): Promise<import("./data.js").Snapshot>;
    /**
     * Those of this sandbox, the oldest first.
     * @returns {Promise<import('./data.js').Snapshot[]>}
     */
    snapshots(): Promise<import("./data.js").Snapshot[]>;
    /**
     * Back to a snapshot, or to the newest at or before an entry of the log.
     * Its processes end; its id stays.
     * @param {State | {event: number}} to
     * @returns {Promise<SandboxInfo>}
     */
    rollback(to: State | {
        event: number;
    }): Promise<SandboxInfo>;
    /**
     * The same sandbox as a microVM or a container. Its processes end; its id,
     * what it is allowed and what is on its disk stay.
     * @param {'microvm' | 'container'} tier
     * @returns {Promise<SandboxInfo>}
     */
    move(tier: "microvm" | "container"): Promise<SandboxInfo>;
    /**
     * So many that start where this one is; the rest of the spec is what is
     * different in them.
     * @param {number} [count]
     * @param {Spec} [o]
     * @returns {Promise<Sandbox[]>}
     */
    fork(count?: number, o?: Spec): Promise<Sandbox[]>;
    /**
     * How its disk differs from another state (a sandbox, a snapshot, an
     * image); without one from what it started from.
     * @param {State | null} [since]
     * @param {{paths?: string[], content?: boolean}} [o]
     * @returns {AsyncGenerator<import('./data.js').Change, void, void>}
     */
    diff(since?: State | null, o?: {
        paths?: string[];
        content?: boolean;
    }): AsyncGenerator<import("./data.js").Change, void, void>;
    /**
     * Takes over what another sandbox or snapshot has changed since both
     * parted. Where both changed something: MergeConflict and nothing is
     * done, unless prefer is "ours" or "theirs".
     * @param {State} source
     * @param {{paths?: string[], prefer?: 'ours' | 'theirs',
     *   dryRun?: boolean}} [o]
     * @returns {Promise<import('./data.js').MergeResult>}
     */
    merge(source: State, o?: {
        paths?: string[];
        prefer?: "ours" | "theirs";
        dryRun?: boolean;
    }): Promise<import("./data.js").MergeResult>;
    /**
     * Its family: images, snapshots and sandboxes that it comes from or that
     * come from it.
     * @returns {Promise<import('./data.js').Node[]>}
     */
    tree(): Promise<import("./data.js").Node[]>;
    /**
     * What it uses now.
     * @returns {Promise<Record<string, any>>}
     */
    stats(): Promise<Record<string, any>>;
    /**
     * Asks for a place ahead of any request to it. What no rule allows or
     * denies a person decides; `wait` is for how many seconds to wait for it.
     * @param {string} url
     * @param {{method?: string, reason?: string, wait?: number}} [o]
     * @returns {Promise<import('./data.js').Access>}
     */
    requestAccess(url: string, o?: {
        method?: string;
        reason?: string;
        wait?: number;
    }): Promise<import("./data.js").Access>;
    /**
     * Of its terminals, the oldest first.
     * @returns {Promise<import('./data.js').Recording[]>}
     */
    recordings(): Promise<import("./data.js").Recording[]>;
    /**
     * What a terminal showed, as an asciicast.
     * @param {State} recording
     * @returns {Promise<string>}
     */
    recording(recording: State): Promise<string>;
    /**
     * Copies a file of the sandbox to the drive; with `version` only in place
     * of that one.
     * @param {string} path
     * @param {string} to
     * @param {{version?: number, user?: string}} [o]
     * @returns {Promise<import('./data.js').DriveFile>}
     */
    drivePut(path: string, to: string, o?: {
        version?: number;
        user?: string;
    }): Promise<import("./data.js").DriveFile>;
    /**
     * Copies a file of the drive into the sandbox.
     * @param {string} path
     * @param {string} to
     * @param {{version?: number, mode?: string, parents?: boolean,
     *   user?: string}} [o]
     * @returns {Promise<import('./data.js').DriveFile>}
     */
    driveGet(path: string, to: string, o?: {
        version?: number;
        mode?: string;
        parents?: boolean;
        user?: string;
    }): Promise<import("./data.js").DriveFile>;
    /**
     * What opens one port for so many seconds.
     * @param {number | string} port
     * @param {{ttl?: number}} [o]
     * @returns {Promise<import('./data.js').PortToken>}
     */
    portToken(port: number | string, o?: {
        ttl?: number;
    }): Promise<import("./data.js").PortToken>;
    /**
     * A link to what is served on this port inside; it works for ttl seconds,
     * for whoever has it.
     * @param {number | string} port
     * @param {{ttl?: number}} [o]
     * @returns {Promise<string>}
     */
    url(port: number | string, o?: {
        ttl?: number;
    }): Promise<string>;
    /**
     * Asks the server on this port inside, whatever it answers.
     * @param {number | string} port
     * @param {string} [path]
     * @param {{method?: string, headers?: Record<string, string>,
     *   body?: import('./data.js').Body}} [o]
     * @returns {Promise<import('./data.js').HttpAnswer>}
     */
    fetch(port: number | string, path?: string, o?: {
        method?: string;
        headers?: Record<string, string>;
        body?: import("./data.js").Body;
    }): Promise<import("./data.js").HttpAnswer>;
    /**
     * Entries of the log about it.
     * @param {import('./client.js').EventOptions} [o]
     */
    events(o?: import("./client.js").EventOptions): Promise<import("./stream.js").Stream<import("./data.js").Event>>;
    #private;
}
export type SandboxInfo = import("./data.js").SandboxInfo;
export type Spec = import("./data.js").Spec;
export type State = import("./client.js").State;
export type WithClient = {
    client?: Client;
};
import { Client } from './client.js';
import { Commands } from './commands.js';
import { Files } from './files.js';
