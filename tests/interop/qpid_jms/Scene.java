import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Queue;
import jakarta.jms.Session;
import jakarta.jms.TextMessage;
import jakarta.jms.Topic;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import org.apache.qpid.jms.JmsConnectionFactory;

/** What a check works with: connections that are closed behind it, names of its own, and how it says what is wrong. */
final class Scene implements AutoCloseable {
    static final long DEADLINE_MS = 30_000;
    private static final String OPTIONS = "amqp.saslMechanisms=ANONYMOUS&amqp.idleTimeout=0&jms.requestTimeout=30000"
            + "&jms.sendTimeout=30000&jms.connectTimeout=30000&jms.closeTimeout=30000";

    /** Another way to the same broker: another router, where there is one. */
    final String elsewhere;
    final String here;
    private final String prefix;
    private final String check;
    private final List<Connection> connections = new ArrayList<>();

    Scene(String here, String elsewhere, String prefix, String check) {
        this.here = here;
        this.elsewhere = elsewhere;
        this.prefix = prefix;
        this.check = check;
    }

    /** A connection that has been started, without a client-id of its own. */
    Connection connect() throws JMSException {
        return connect(here, null, "");
    }

    /** A connection that has been started; `clientId` may be null, `more` are further options of the URL. */
    Connection connect(String url, String clientId, String more) throws JMSException {
        Connection connection = new JmsConnectionFactory(url + "?" + OPTIONS + more).createConnection();
        connections.add(connection);
        if (clientId != null) connection.setClientID(clientId);
        connection.start();
        return connection;
    }

    Connection connectAs(String clientId) throws JMSException {
        return connect(here, clientId, "");
    }

    Connection connectWith(String more) throws JMSException {
        return connect(here, null, more);
    }

    /** A session that acknowledges by itself, on a connection of its own. */
    Session session() throws JMSException {
        return connect().createSession();
    }

    /** A name that only this check of this run has. */
    String own(String name) {
        return prefix + "." + check + "." + name;
    }

    /** The check's own queue; the broker has one for each check, of the kind that it needs. */
    Queue queue(Session session) throws JMSException {
        return session.createQueue(prefix + "." + check);
    }

    Queue queue(Session session, String name) throws JMSException {
        return session.createQueue(own(name));
    }

    Topic topic(Session session) throws JMSException {
        return session.createTopic("amq.topic/" + own("topic"));
    }

    static void send(Session session, jakarta.jms.Destination to, String... texts) throws JMSException {
        try (var producer = session.createProducer(to)) {
            for (String text : texts) producer.send(session.createTextMessage(text));
        }
    }

    /** The next message, or fail. */
    static Message next(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receive(DEADLINE_MS);
        if (message == null) throw new AssertionError("no message within " + DEADLINE_MS + " ms");
        return message;
    }

    static String text(Message message) throws JMSException {
        return ((TextMessage) message).getText();
    }

    static void expect(MessageConsumer consumer, String... texts) throws JMSException {
        for (String text : texts) same("text", text, text(next(consumer)));
    }

    /** Nothing is there: the client asks the broker for it (drain), so that no time has to pass. */
    static void expectNothing(MessageConsumer consumer) throws JMSException {
        Message message = consumer.receiveNoWait();
        if (message != null) throw new AssertionError("one message too many: " + text(message));
    }

    static void same(String what, Object wanted, Object found) {
        if (!Objects.equals(wanted, found)) throw new AssertionError(what + ": " + found + ", not " + wanted);
    }

    @Override
    public void close() throws JMSException {
        for (Connection connection : connections) connection.close();
    }
}
