// Lints the OpenAPI document of a daemon: node lint_openapi.js FILE
'use strict';
const { createConfig, formatProblems, getTotals, lint } =
	require('@redocly/openapi-core');

async function main(file) {
	// Upgrades are answered with 101 and nothing else.
	const config = await createConfig({
		extends: ['recommended'],
		rules: { 'operation-2xx-response': 'off' },
	});
	const problems = await lint({ ref: file, config });
	const totals = getTotals(problems);

	formatProblems(problems, { totals, format: 'codeframe' });
	return totals.errors + totals.warnings > 0 ? 1 : 0;
}

main(process.argv[2]).then((code) => process.exit(code));
