import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import java.util.Map;

/** Transactions, and the ways to acknowledge. */
final class SessionChecks {
    private static final int INDIVIDUAL_ACKNOWLEDGE = 101;

    private SessionChecks() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("commit", SessionChecks::commit);
        checks.put("rollback", SessionChecks::rollback);
        checks.put("two_queues", SessionChecks::twoQueues);
        checks.put("two_transactions", SessionChecks::twoTransactions);
        checks.put("recover", SessionChecks::recover);
        checks.put("client_acknowledge", SessionChecks::clientAcknowledge);
        checks.put("individual_acknowledge", SessionChecks::individualAcknowledge);
        checks.put("redelivered", SessionChecks::redelivered);
    }

    private static Session transacted(Scene scene) throws JMSException {
        return scene.connect().createSession(Session.SESSION_TRANSACTED);
    }

    /** Nothing that was sent is there before the commit; nothing that was received comes again behind it. */
    private static String commit(Scene scene) throws JMSException {
        Session session = transacted(scene);
        Session other = scene.session();
        MessageConsumer watching = other.createConsumer(scene.queue(other));
        Scene.send(session, scene.queue(session), "one", "two");
        Scene.expectNothing(watching);
        session.commit();
        Scene.expect(watching, "one", "two");
        watching.close();
        Scene.send(other, scene.queue(other), "three");
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Scene.expect(consumer, "three");
        session.commit();
        session.close();
        Scene.expectNothing(other.createConsumer(scene.queue(other)));
        return "";
    }

    private static String rollback(Scene scene) throws JMSException {
        Session session = transacted(scene);
        Session other = scene.session();
        Scene.send(session, scene.queue(session), "never");
        session.rollback();
        Scene.send(other, scene.queue(other), "back");
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Scene.expect(consumer, "back");
        session.rollback();
        Message again = Scene.next(consumer);
        Scene.same("text", "back", Scene.text(again));
        String seen = again.getJMSRedelivered() + " " + again.getIntProperty("JMSXDeliveryCount");
        session.commit();
        Scene.expectNothing(consumer);
        return seen;
    }

    /** One transaction that takes from one queue and sends to another one: both or none. */
    private static String twoQueues(Scene scene) throws JMSException {
        Session session = transacted(scene);
        Session other = scene.session();
        Scene.send(other, scene.queue(other, "from"), "one", "two");
        MessageConsumer from = session.createConsumer(scene.queue(session, "from"));
        MessageConsumer to = other.createConsumer(scene.queue(other, "to"));
        for (int turn = 0; turn < 2; turn++) {
            Scene.expect(from, "one", "two");
            Scene.send(session, scene.queue(session, "to"), "1", "2");
            if (turn == 0) session.rollback();
            Scene.expectNothing(to);
        }
        session.commit();
        Scene.expect(to, "1", "2");
        from.close();
        session.close();
        Scene.expectNothing(to);
        Scene.expectNothing(other.createConsumer(scene.queue(other, "from")));
        return "";
    }

    /** Two sessions of one connection have transactions of their own. */
    private static String twoTransactions(Scene scene) throws JMSException {
        Connection connection = scene.connect();
        Session first = connection.createSession(Session.SESSION_TRANSACTED);
        Session second = connection.createSession(Session.SESSION_TRANSACTED);
        Scene.send(first, scene.queue(first), "first");
        Scene.send(second, scene.queue(second), "second");
        first.rollback();
        second.commit();
        MessageConsumer consumer = first.createConsumer(scene.queue(first));
        Scene.expect(consumer, "second");
        first.commit();
        Scene.expectNothing(consumer);
        return "";
    }

    private static String recover(Scene scene) throws JMSException {
        Session session = scene.connect().createSession(Session.CLIENT_ACKNOWLEDGE);
        Scene.send(session, scene.queue(session), "one", "two");
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Scene.expect(consumer, "one", "two");
        session.recover();
        StringBuilder seen = new StringBuilder();
        for (String text : new String[] {"one", "two"}) {
            Message message = Scene.next(consumer);
            Scene.same("text", text, Scene.text(message));
            Scene.same("redelivered", true, message.getJMSRedelivered());
            seen.append(message.getIntProperty("JMSXDeliveryCount")).append(' ');
            message.acknowledge();
        }
        Scene.expectNothing(consumer);
        return seen.toString();
    }

    /** The last message stands for all that the session has received. */
    private static String clientAcknowledge(Scene scene) throws JMSException {
        Connection connection = scene.connect();
        Session session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
        Scene.send(session, scene.queue(session), "one", "two", "three");
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Scene.expect(consumer, "one");
        Scene.next(consumer).acknowledge();
        Scene.expect(consumer, "three");
        connection.close();
        Session other = scene.session();
        MessageConsumer rest = other.createConsumer(scene.queue(other));
        Scene.expect(rest, "three");
        Scene.expectNothing(rest);
        return "";
    }

    private static String individualAcknowledge(Scene scene) throws JMSException {
        Connection connection = scene.connect();
        Session session = connection.createSession(INDIVIDUAL_ACKNOWLEDGE);
        Scene.send(session, scene.queue(session), "one", "two", "three");
        MessageConsumer consumer = session.createConsumer(scene.queue(session));
        Scene.expect(consumer, "one");
        Scene.next(consumer).acknowledge();
        Scene.expect(consumer, "three");
        connection.close();
        Session other = scene.session();
        MessageConsumer rest = other.createConsumer(scene.queue(other));
        Scene.expect(rest, "one", "three");
        Scene.expectNothing(rest);
        return "";
    }

    /** A connection that ends with messages that nobody acknowledged gives them back. */
    private static String redelivered(Scene scene) throws JMSException {
        Connection connection = scene.connect();
        Session session = connection.createSession(Session.CLIENT_ACKNOWLEDGE);
        Scene.send(session, scene.queue(session), "one", "two");
        Scene.expect(session.createConsumer(scene.queue(session)), "one", "two");
        connection.close();
        Session other = scene.session();
        MessageConsumer consumer = other.createConsumer(scene.queue(other));
        for (String text : new String[] {"one", "two"}) {
            Message message = Scene.next(consumer);
            Scene.same("text", text, Scene.text(message));
            Scene.same("redelivered", true, message.getJMSRedelivered());
        }
        return "";
    }
}
