// rhea with default settings: a sender and a receiver on `orders`.
'use strict';

const container = require('rhea');

const url = new URL(process.argv[2]);
const connection = container.connect({ host: url.hostname, port: url.port });
connection.open_receiver('orders');
connection.open_sender('orders');
for (const name of ['connection_error', 'connection_close', 'disconnected']) {
    container.on(name, (context) => console.log(`${name} ${context.connection.error || context.error || ''}`));
}
