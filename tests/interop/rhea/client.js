// A small AMQP client on rhea. One argument: JSON with url, role (send, receive, request, respond, login) and what it needs
// (see ../programs.py). Prints JSON lines: {"event": "ready"} when its links are up, and at the end {"event": "done", ...}.
'use strict';

const crypto = require('crypto');
const fs = require('fs');
const container = require('rhea');

const args = JSON.parse(process.argv[2]);
const url = new URL(args.url || 'amqp://none');

function say(event, fields) {
    process.stdout.write(JSON.stringify({ event, ...fields }) + '\n');
}

function fail(text) {
    say('failed', { error: String(text) });
    process.exit(1);
}

function body(number) {
    return `${number}:` + 'x'.repeat(args.size || 0);
}

function describe(message, settled) {
    return {
        number: parseInt(message.body, 10),
        length: message.body.length,
        sha256: crypto.createHash('sha256').update(message.body).digest('hex'),
        settled,
    };
}

function finish(connection, fields) {
    connection.once('connection_close', () => say('done', fields));
    connection.close();
}

const roles = {
    send(connection) {
        const outcomes = {};
        const states = new Map(); // a state may be told more than once before the delivery is settled
        let sent = 0;
        let over = 0;
        const sender = connection.open_sender({
            target: { address: args.address }, snd_settle_mode: args.presettled ? 1 : 0,
            treat_modified_as_released: false,
        });
        const one_over = (name) => {
            outcomes[name] = (outcomes[name] || 0) + 1;
            over += 1;
            if (over === args.count) finish(connection, { outcomes });
        };
        sender.once('sender_open', () => say('ready', {}));
        sender.on('sendable', () => {
            while (sent < args.count && sender.sendable()) {
                const number = sent;
                sent += 1;
                sender.send({ body: body(number), durable: true, application_properties: { number } });
                if (args.presettled) one_over('presettled');
            }
        });
        for (const name of ['accepted', 'rejected', 'released', 'modified']) {
            sender.on(name, (context) => { states.set(context.delivery, name); });
        }
        sender.on('settled', (context) => one_over(states.get(context.delivery) || 'settled'));
    },

    receive(connection) {
        const messages = [];
        const outcomes = args.outcomes || ['accept'];
        const waiting = [];
        // One a turn: rhea writes the first two outcomes of a turn as one range, with the state of the first.
        const settle = () => {
            const [delivery, outcome] = waiting.shift();
            if (outcome === 'accept') delivery.accept();
            if (outcome === 'reject') delivery.reject({ condition: 'test:refused', description: 'as asked' });
            if (outcome === 'release') delivery.release();
            if (outcome === 'modify') delivery.modified({ delivery_failed: true, undeliverable_here: true });
            if (waiting.length) setImmediate(settle);
            else if (messages.length === args.count) finish(connection, { messages });
        };
        const receiver = connection.open_receiver({
            source: { address: args.address }, credit_window: 0, autoaccept: false,
            snd_settle_mode: args.presettled ? 1 : 2,
        });
        receiver.once('receiver_open', () => {
            receiver.add_credit(args.count);
            say('ready', {});
        });
        receiver.on('message', (context) => {
            const delivery = context.delivery;
            messages.push(describe(context.message, delivery.remote_settled));
            waiting.push([delivery, outcomes[(messages.length - 1) % outcomes.length]]);
            if (waiting.length === 1) setImmediate(settle);
        });
    },

    request(connection) {
        const replies = [];
        const receiver = connection.open_receiver({ source: { dynamic: true } });
        const sender = connection.open_sender(args.address);
        let reply_to;
        let asked = 0;
        const ask = () => {
            while (reply_to && asked < args.count && sender.sendable()) {
                sender.send({ body: body(asked), reply_to, correlation_id: `request-${asked}` });
                asked += 1;
            }
        };
        receiver.on('receiver_open', () => {
            reply_to = receiver.source.address;
            say('ready', { reply_to });
            ask();
        });
        sender.on('sendable', ask);
        receiver.on('message', (context) => {
            replies.push({ correlation_id: context.message.correlation_id, body: context.message.body });
            if (replies.length === args.count) finish(connection, { replies });
        });
    },

    respond(connection) {
        let answered = 0;
        let settled = 0;
        const answers = connection.open_sender({ target: {} });
        const waiting = [];
        const answer = () => {
            while (waiting.length && answers.sendable()) {
                const message = waiting.shift();
                answers.send({
                    to: message.reply_to, correlation_id: message.correlation_id, body: message.body.toUpperCase(),
                });
                answered += 1;
            }
        };
        const receiver = connection.open_receiver(args.address);
        receiver.on('receiver_open', () => say('ready', {}));
        receiver.on('message', (context) => {
            waiting.push(context.message);
            answer();
        });
        answers.on('sendable', answer);
        answers.on('settled', () => {
            settled += 1;
            if (settled === args.count) finish(connection, { answered });
        });
    },
};

// Tries one login after the other: who gets in has error ''.
function login(waiting, results) {
    if (!waiting.length) return say('done', { results });
    const one = waiting.shift();
    const to = new URL(one.url);
    const of_file = (name) => (one[name] ? fs.readFileSync(one[name]) : undefined);
    const by = {
        PLAIN: { username: one.user, password: one.password },
        ANONYMOUS: { username: 'anonymous' },
        EXTERNAL: { enable_sasl_external: true },
    }[one.mechanism];
    const secure = to.protocol === 'amqps:'
        ? { transport: 'tls', ca: [fs.readFileSync(args.ca)], cert: of_file('cert'), key: of_file('key') } : {};
    const connection = container.create_container().connect({
        host: to.hostname, port: to.port, reconnect: false, ...secure, ...by,
    });
    let over = false;
    const end = (error) => {
        if (over) return;
        over = true;
        results.push({ name: one.name, error });
        connection.close();
        login(waiting, results);
    };
    connection.on('connection_open', () => end(''));
    for (const event of ['connection_error', 'disconnected', 'protocol_error', 'error']) {
        connection.on(event, (context) => end(String(connection.error || context.error || context || event)));
    }
}

container.on('connection_open', (context) => roles[args.role](context.connection));
container.on('connection_error', (context) => fail(context.connection.error));
container.on('session_error', (context) => fail(context.session.error));
for (const event of ['receiver_error', 'sender_error']) {
    container.on(event, (context) => fail((context.receiver || context.sender).error));
}
container.on('disconnected', (context) => fail(`disconnected ${context.error || ''}`));
container.on('error', (context) => fail(context));

const who = args.token // by SASL XOAUTH2 over TLS
    ? { transport: 'tls', ca: [fs.readFileSync(args.ca)], username: args.user, token: args.token }
    : { username: 'anonymous' };
if (args.role === 'login') {
    login(args.logins, []);
} else if (url.protocol.startsWith('ws')) {
    const files = Object.entries({ ca: args.ca, cert: args.cert, key: args.key }).filter(([, path]) => path);
    const tls = Object.fromEntries(files.map(([name, path]) => [name, fs.readFileSync(path)]));
    const over = container.websocket_connect(require('ws'));
    container.connect({ connection_details: over(args.url, ['amqp'], tls), reconnect: false, ...who });
} else {
    container.connect({ host: url.hostname, port: url.port, reconnect: false, ...who });
}
