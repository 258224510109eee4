/**
 * The members of an object under our names; what is in them is as it came.
 * @param {any} j
 * @returns {any}
 */
export function record(j: any): any;
/**
 * A spec as the daemon has it: idleTimeout is "idle-timeout", and files may
 * be given as {path: content}.
 * @param {Record<string, any>} [spec]
 */
export function specJson(spec?: Record<string, any>): Record<string, any>;
/** @param {Uint8Array} bytes @returns {string} */
export function textOf(bytes: Uint8Array): string;
/**
 * @param {Uint8Array} out
 * @param {Uint8Array} err
 * @param {any} exit null: it was killed and did not end
 * @param {boolean} timedOut
 * @param {number} lost
 * @returns {Result}
 */
export function makeResult(out: Uint8Array, err: Uint8Array, exit: any, timedOut: boolean, lost: number): Result;
/** @param {any} j @returns {Result} */
export function resultOf(j: any): Result;
/**
 * what may be sent
 */
export type Body = string | Uint8Array | Iterable<Uint8Array> | AsyncIterable<Uint8Array>;
/**
 * a line for the shell, or words
 */
export type CommandLine = string | string[];
/**
 * seconds, or "5m"
 */
export type Time = number | string;
/**
 * bytes, or "512M"
 */
export type Size = number | string;
/**
 * what a sandbox is asked for as
 */
export type Spec = {
    image?: string | undefined;
    name?: string | undefined;
    labels?: Record<string, string | null> | undefined;
    cpus?: string | number | undefined;
    memory?: Size | undefined;
    disk?: Size | undefined;
    pids?: number | undefined;
    nofile?: number | undefined;
    timeout?: Time | undefined;
    timeoutAction?: string | undefined;
    idleTimeout?: Time | undefined;
    idleAction?: string | undefined;
    cpuBudget?: Time | undefined;
    outputLimit?: Size | undefined;
    autoSnapshot?: string | undefined;
    snapshotKeep?: number | undefined;
    user?: string | undefined;
    workdir?: string | undefined;
    env?: Record<string, string> | undefined;
    ports?: Record<string, number> | undefined;
    files?: Record<string, string | Uint8Array<ArrayBufferLike>> | object[] | undefined;
    start?: string[] | undefined;
    volumes?: string[] | undefined;
    drive?: string[] | undefined;
    policy?: string | undefined;
    allow?: string[] | undefined;
    rules?: string[] | undefined;
    lateRules?: string[] | undefined;
    secrets?: string[] | undefined;
    canaries?: string[] | undefined;
    observe?: boolean | undefined;
    sudo?: boolean | undefined;
    persist?: boolean | undefined;
    allowMissing?: string | undefined;
};
export type SandboxInfo = {
    id: string;
    project: string;
    image: string;
    state: string;
    name: string | null;
    labels: Record<string, string>;
    createdAt: Date;
    expiresAt: Date | null;
    parent?: string;
    base?: string;
    spec: Record<string, any>;
    usage?: Record<string, number> | null;
    ended?: Record<string, any>;
    raw: any;
};
/**
 * what became of a command
 */
export type Result = {
    stdout: string;
    stderr: string;
    /**
     * 128 and the signal, if one ended it
     */
    exitCode: number;
    signal: number | null;
    timedOut: boolean;
    /**
     * bytes of output that were not kept
     */
    lost: number;
    ok: boolean;
    stdoutBytes: Uint8Array;
    stderrBytes: Uint8Array;
};
/**
 * a piece of what a command wrote
 */
export type Output = {
    stream: "stdout" | "stderr";
    data: Uint8Array;
    text: string;
};
export type ProcessInfo = {
    number: number;
    pid: number;
    argv: string[];
    state: string;
    tag: string | null;
    user: string;
    tty: boolean;
    startedAt: Date;
    exit: any;
    stdoutEnd: number;
    stderrEnd: number;
    raw: any;
};
/**
 * a file, a directory, or another entry
 */
export type Entry = {
    path: string;
    name: string;
    type: string;
    size: number;
    mode: string;
    uid: number;
    gid: number;
    user: string | null;
    group: string | null;
    modifiedAt: Date | null;
    target: string | null;
    raw: any;
};
export type FileEvent = {
    type: string;
    path: string;
    to?: string;
    raw: any;
};
export type Written = {
    size: number;
    sha256: string;
    raw: any;
};
export type Unpacked = {
    entries: number;
    bytes: number;
    notes?: string[];
    raw: any;
};
export type Snapshot = {
    id: string;
    name: string | null;
    sandbox: string;
    image: string;
    base: string | null;
    kind: string;
    bytes: number;
    pauseUs: number;
    event: number;
    createdAt: Date;
    raw: any;
};
export type Change = {
    path: string;
    change: "added" | "removed" | "changed";
    what?: string[];
    before?: any;
    after?: any;
    raw: any;
};
export type MergeResult = {
    put: number;
    removed: number;
    same: number;
    kept: number;
    conflicts: number;
    changes: any[];
    truncated: boolean;
    dryRun: boolean;
    pauseMs: number;
    raw: any;
};
/**
 * of the lineage of a sandbox
 */
export type Node = {
    type: string;
    id: string;
    name: string | null;
    parent: string | null;
    state: string | null;
    createdAt: Date | null;
    raw: any;
};
export type Policy = {
    name: string;
    project: string;
    sha256: string;
    sandboxes: string[];
    updatedAt: Date;
    text?: string;
    policy?: any;
    raw: any;
};
/**
 * what a policy says about a request
 */
export type Verdict = {
    verdict: "allow" | "deny" | "ask";
    part: string | null;
    line: number | null;
    rule: string | null;
    observed: boolean;
    raw: any;
};
/**
 * a request that waits for a person
 */
export type Approval = {
    number: number;
    sandbox: string;
    name: string | null;
    url: string;
    host: string;
    method: string;
    askedAt: Date;
    expiresAt: Date;
    raw: any;
};
/**
 * whether a place may be reached
 */
export type Access = {
    state: "allowed" | "waiting" | "denied";
    why: string;
    number: number | null;
    expiresAt: Date | null;
    raw: any;
};
export type Volume = {
    id: string;
    name: string;
    project: string;
    size: number;
    state: string;
    sandboxes: string[];
    createdAt: Date;
    raw: any;
};
/**
 * its `key` is there only where it was made
 */
export type Key = {
    id: string;
    name: string;
    project: string;
    scope: string;
    createdAt: Date;
    lastUsedAt: Date | null;
    key?: string;
    raw: any;
};
/**
 * of a terminal, as an asciicast
 */
export type Recording = {
    id: string;
    process: number;
    size: number;
    createdAt: Date;
    raw: any;
};
export type Secret = {
    name: string;
    project: string;
    kind: string;
    hosts: string[];
    env?: string;
    createdAt: Date;
    updatedAt: Date;
    raw: any;
};
/**
 * an entry of the log
 */
export type Event = {
    seq: number;
    type: string;
    time: string;
    sandbox?: string;
    data?: any;
    raw: any;
};
export type Image = {
    name: string;
    id: string;
    size: number;
    entries: number;
    createdAt: Date;
    config?: any;
    raw: any;
};
export type DriveFile = {
    path: string;
    type: string;
    version: number;
    removed: boolean;
    size: number;
    sha256: string | null;
    who: string;
    sandbox: string | null;
    createdAt: Date | null;
    raw: any;
};
export type PortToken = {
    token: string;
    url: string | null;
    expiresAt: Date;
    raw: any;
};
/**
 * of a server inside
 */
export type HttpAnswer = {
    status: number;
    headers: Record<string, any>;
    body: Uint8Array;
    text: string;
};
