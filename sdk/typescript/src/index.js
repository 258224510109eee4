/**
 * Carrel: a Linux machine for every agent.
 *
 *	import { Sandbox } from 'carrel';
 *
 *	const box = await Sandbox.create();
 *	await box.files.write('hello.py', "print('hello')");
 *	console.log((await box.run('python3 hello.py')).stdout);
 *	await box.kill();
 *
 * @module
 */
export { Client } from './client.js';
export { Command } from './commands.js';
export * from './errors.js';
export { Sandbox } from './sandbox.js';
export { Stream } from './stream.js';
export { Terminal } from './terminal.js';

/** @typedef {import('./data.js').Access} Access */
/** @typedef {import('./data.js').Approval} Approval */
/** @typedef {import('./data.js').Body} Body */
/** @typedef {import('./data.js').Change} Change */
/** @typedef {import('./data.js').CommandLine} CommandLine */
/** @typedef {import('./data.js').DriveFile} DriveFile */
/** @typedef {import('./data.js').Entry} Entry */
/** @typedef {import('./data.js').Event} Event */
/** @typedef {import('./data.js').FileEvent} FileEvent */
/** @typedef {import('./data.js').HttpAnswer} HttpAnswer */
/** @typedef {import('./data.js').Image} Image */
/** @typedef {import('./data.js').Key} Key */
/** @typedef {import('./data.js').MergeResult} MergeResult */
/** @typedef {import('./data.js').Node} Node */
/** @typedef {import('./data.js').Output} Output */
/** @typedef {import('./data.js').Policy} Policy */
/** @typedef {import('./data.js').PortToken} PortToken */
/** @typedef {import('./data.js').ProcessInfo} ProcessInfo */
/** @typedef {import('./data.js').Recording} Recording */
/** @typedef {import('./data.js').Result} Result */
/** @typedef {import('./data.js').SandboxInfo} SandboxInfo */
/** @typedef {import('./data.js').Secret} Secret */
/** @typedef {import('./data.js').Snapshot} Snapshot */
/** @typedef {import('./data.js').Spec} Spec */
/** @typedef {import('./data.js').Unpacked} Unpacked */
/** @typedef {import('./data.js').Verdict} Verdict */
/** @typedef {import('./data.js').Volume} Volume */
/** @typedef {import('./data.js').Written} Written */
