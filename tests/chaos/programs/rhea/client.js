// A client of a run under faults, on rhea, which connects again by itself. One argument: its plan as JSON (see
// ../../outside.py, which also says what it reads and writes).
'use strict';

const fs = require('fs');
const readline = require('readline');
const container = require('rhea');

const TICK_MS = 50;
const AGAIN_MS = 200;
const CREDIT = 20;
const LATE_MS = 1000;
const KEPT_SHARE = 0.2;
const plan = JSON.parse(process.argv[2]);
let sending = true;

const now = () => Number(process.hrtime.bigint()) / 1e9; // CLOCK_MONOTONIC, as all clients have it
const write = (...row) => process.stdout.write(JSON.stringify(row) + '\n');

function choose(weights) {
    let left = Math.random() * Object.values(weights).reduce((sum, weight) => sum + weight, 0);
    return Object.keys(weights).find((name) => (left -= weights[name]) < 0);
}

// A link that rhea attaches again with each connection; `name` is another one each time.
class Task {
    constructor(number, terms) {
        Object.assign(this, terms, { number, attaches: 0, attached: false });
    }

    opened() {
        this.attaches += 1;
        this.name = `${plan.name}.${this.number}.${this.attaches}`;
        this.attached = true;
        write('Attached', now(), this.name, this.address, this.sends);
    }

    ended() {
        if (this.attached) write('Gone', now(), this.name, true);
        this.attached = false;
    }

    // By the router alone: a new link on the same connection.
    closed(connection, link) {
        write('Problem', `${this.name} of ${this.address} was detached: ${link.error || ''}`);
        this.ended();
        setTimeout(() => this.open(connection), AGAIN_MS);
    }
}

class Producer extends Task {
    open(connection) {
        const states = new Map(); // a state may be told more than once before the delivery is settled
        const link = connection.open_sender({
            target: { address: this.address }, snd_settle_mode: this.settled ? 1 : 0, treat_modified_as_released: false,
        });
        this.link = link;
        link.on('sender_open', () => {
            this.opened();
            Object.assign(this, { waiting: 0, count: 0, due: now() });
        });
        link.on('sender_close', () => this.closed(connection, link));
        for (const name of ['accepted', 'rejected', 'released', 'modified']) {
            link.on(name, (context) => states.set(context.delivery, name));
        }
        link.on('settled', (context) => {
            if (!this.attached || this.settled) return;
            write('Outcome', now(), this.name, context.delivery.message, states.get(context.delivery) || 'settled');
            states.delete(context.delivery);
            this.waiting -= 1;
        });
    }

    // One message at most: rhea takes credit into account only when it writes, after this turn.
    tick() {
        const at = now();
        if (!this.attached || !sending || this.due > at || this.waiting >= this.window || !this.link.sendable()) return;
        this.due = Math.max(this.due, at - 5 / this.rate) + 1 / this.rate;
        const message = `${this.name}:${this.count}`;
        const size = Math.floor(Math.random() * 100);
        write('Sent', at, this.name, message, this.count, this.settled);
        this.count += 1;
        if (!this.settled) this.waiting += 1;
        const words = { message, from: plan.name, at, size };
        this.link.send({ body: 'x'.repeat(size), durable: true, application_properties: words }).message = message;
    }
}

// One a turn: rhea writes the first two outcomes of a turn as one range, with the state of the first.
const answers = [];
function answer_later(...one) {
    answers.push(one);
    if (answers.length === 1) setImmediate(answer_next);
}

function answer_next() {
    const [task, name, delivery, message] = answers.shift();
    if (task.attached && task.name === name) task.answer(delivery, message);
    if (answers.length) setImmediate(answer_next);
}

class Consumer extends Task {
    open(connection) {
        const link = connection.open_receiver({
            source: { address: this.address }, snd_settle_mode: 2, credit_window: 0, autoaccept: false,
        });
        this.link = link;
        link.on('receiver_open', () => {
            this.opened();
            link.add_credit(CREDIT);
        });
        link.on('receiver_close', () => this.closed(connection, link));
        link.on('message', (context) => this.received(context.message, context.delivery));
    }

    received(came, delivery) {
        if (!this.attached) return;
        const words = came.application_properties || {};
        const whole = typeof came.body === 'string' && came.body.length === words.size;
        const message = whole ? words.message : `${words.message} damaged`;
        write('Received', now(), this.name, message, delivery.remote_settled);
        write('Through', words.from, this.address, words.at);
        if (delivery.remote_settled) return this.link.add_credit(1);
        const late = Math.random() < KEPT_SHARE ? Math.random() * LATE_MS : 0;
        const name = this.name;
        setTimeout(() => answer_later(this, name, delivery, message), late);
    }

    answer(delivery, message) {
        const state = choose(plan.answers);
        write('Answered', now(), this.name, message, state);
        if (state === 'accepted') delivery.accept();
        if (state === 'rejected') delivery.reject({ condition: 'test:refused', description: 'as chosen' });
        if (state === 'released') delivery.release();
        if (state === 'modified') delivery.modified({ delivery_failed: true });
        this.link.add_credit(1);
    }
}

// The authorities are read for each connection: they change.
function details() {
    const to = { host: '127.0.0.1', port: plan.port };
    return plan.ca ? { ...to, transport: 'tls', options: { ca: [fs.readFileSync(plan.ca)] } } : { ...to, options: {} };
}

const tasks = plan.links.map((terms, number) => new (terms.sends ? Producer : Consumer)(number, terms));
for (const event of ['connection_error', 'session_error', 'protocol_error', 'error']) {
    container.on(event, (context) => write('Problem', `${plan.name}: ${event} ${context.error || context}`));
}
container.on('disconnected', () => tasks.forEach((task) => task.ended()));
// Without all_errors_non_fatal, a close by the router with any error but amqp:connection:forced would be the end.
const connection = container.connect({
    connection_details: details, container_id: plan.name, username: 'anonymous', idle_time_out: plan.idle_s * 1000,
    initial_reconnect_delay: AGAIN_MS, max_reconnect_delay: AGAIN_MS, all_errors_non_fatal: true,
});
tasks.forEach((task) => task.open(connection));
setInterval(() => tasks.filter((task) => task.sends).forEach((task) => task.tick()), TICK_MS);

const lines = readline.createInterface({ input: process.stdin });
lines.on('line', (line) => {
    if (line === 'finish') sending = false;
    else write('Reached', Number(line));
});
lines.on('close', () => process.exit(0));
