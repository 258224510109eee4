// What Node's HTTP server makes of bytes, for tests that compare parsers.
//	node parse.js SOCKET
// Answers each request with a field, for HEAD too, that says how it was read.
'use strict';
const http = require('http');

const server = http.createServer((req, res) => {
	let n = 0;
	req.on('data', (d) => { n += d.length; });
	req.on('end', () => res.setHeader('X-Read', JSON.stringify({
		method: req.method, target: req.url, host: req.headers.host, body: n,
	})).end());
});
server.keepAliveTimeout = 0;
server.listen(process.argv[2]);
