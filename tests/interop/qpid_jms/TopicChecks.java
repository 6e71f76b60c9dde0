import jakarta.jms.Connection;
import jakarta.jms.JMSException;
import jakarta.jms.Message;
import jakarta.jms.MessageConsumer;
import jakarta.jms.Session;
import jakarta.jms.TemporaryTopic;
import java.util.Map;

/** Topics and their subscriptions. */
final class TopicChecks {
    private static final String NEWS = "news";
    private static final int MOVES = 10;

    private TopicChecks() {}

    static void add(Map<String, Main.Check> checks) {
        checks.put("topic", TopicChecks::topic);
        checks.put("temporary_topic", TopicChecks::temporaryTopic);
        checks.put("no_local", TopicChecks::noLocal);
        checks.put("durable_subscription", scene -> durable(scene, null));
        checks.put("durable_subscription_elsewhere", scene -> durable(scene, scene.elsewhere));
        checks.put("durable_subscription_moves", TopicChecks::durableMoves);
        checks.put("durable_two_clients", TopicChecks::durableTwoClients);
        checks.put("durable_refused_while_used", TopicChecks::durableRefusedWhileUsed);
        checks.put("shared_subscription", scene -> shared(scene, false, null));
        checks.put("shared_subscription_of_a_client", scene -> shared(scene, false, scene.own("client")));
        checks.put("shared_durable_subscription", scene -> shared(scene, true, null));
        checks.put("shared_durable_subscription_left", TopicChecks::sharedDurableLeft);
    }

    private static String topic(Scene scene) throws JMSException {
        Session session = scene.session();
        Session other = scene.session();
        Scene.send(session, scene.topic(session), "nobody listens");
        MessageConsumer first = session.createConsumer(scene.topic(session));
        MessageConsumer second = other.createConsumer(scene.topic(other));
        Scene.send(session, scene.topic(session), "one", "two");
        Scene.expect(first, "one", "two");
        Scene.expect(second, "one", "two");
        return "";
    }

    private static String temporaryTopic(Scene scene) throws JMSException {
        Session session = scene.session();
        Session other = scene.session();
        TemporaryTopic topic = session.createTemporaryTopic();
        MessageConsumer first = session.createConsumer(topic);
        MessageConsumer second = session.createConsumer(topic);
        Scene.send(other, other.createTopic(topic.getTopicName()), "one");
        Scene.send(session, topic, "two");
        Scene.expect(first, "one", "two");
        Scene.expect(second, "one", "two");
        first.close();
        second.close();
        topic.delete();
        return "";
    }

    /** What a client sends itself is not for a consumer that does not want it; what others send is. */
    private static String noLocal(Scene scene) throws JMSException {
        Connection connection = scene.connect();
        Session session = connection.createSession();
        Session same = connection.createSession();
        Session other = scene.session();
        MessageConsumer consumer = session.createConsumer(scene.topic(session), null, true);
        MessageConsumer all = session.createConsumer(scene.topic(session));
        Scene.send(same, scene.topic(same), "own");
        Scene.send(other, scene.topic(other), "other");
        Scene.expect(all, "own", "other");
        Scene.expect(consumer, "other");
        Scene.expectNothing(consumer);
        return "";
    }

    /** What was sent while the subscriber was away is there when it comes back, also by another way. */
    private static String durable(Scene scene, String elsewhere) throws JMSException {
        String client = scene.own("client");
        Session other = scene.session();
        Connection connection = scene.connectAs(client);
        Session session = connection.createSession();
        MessageConsumer first = session.createDurableSubscriber(scene.topic(session), NEWS);
        Scene.send(other, scene.topic(other), "one");
        Scene.expect(first, "one");
        connection.close();
        Scene.send(other, scene.topic(other), "two", "three");
        Connection again = elsewhere == null ? scene.connectAs(client) : scene.connect(elsewhere, client, "");
        session = again.createSession();
        MessageConsumer second = session.createDurableSubscriber(scene.topic(session), NEWS);
        Scene.expect(second, "two", "three");
        second.close();
        Scene.send(other, scene.topic(other), "four");
        second = session.createDurableSubscriber(scene.topic(session), NEWS);
        Scene.expect(second, "four");
        second.close();
        Scene.send(other, scene.topic(other), "five");
        session.unsubscribe(NEWS);
        MessageConsumer anew = session.createDurableSubscriber(scene.topic(session), NEWS);
        Scene.send(other, scene.topic(other), "six");
        Scene.expect(anew, "six");
        anew.close();
        session.unsubscribe(NEWS);
        return "";
    }

    /** A subscriber that goes to and fro between two ways at once; what it missed is sent where it goes next. */
    private static String durableMoves(Scene scene) throws JMSException {
        String client = scene.own("client");
        Session[] others = {scene.session(), scene.connect(scene.elsewhere, null, "").createSession()};
        for (int i = 0; i <= MOVES; i++) {
            Connection connection = i % 2 == 0 ? scene.connectAs(client) : scene.connect(scene.elsewhere, client, "");
            Session session = connection.createSession();
            MessageConsumer consumer = session.createDurableSubscriber(scene.topic(session), NEWS);
            if (i > 0) Scene.expect(consumer, "first " + i, "second " + i);
            if (i == MOVES) {
                consumer.close();
                session.unsubscribe(NEWS);
            }
            connection.close();
            Session other = others[(i + 1) % 2];
            if (i < MOVES) Scene.send(other, scene.topic(other), "first " + (i + 1), "second " + (i + 1));
        }
        return "";
    }

    /** Two clients may give their subscriptions the same name. */
    private static String durableTwoClients(Scene scene) throws JMSException {
        Session other = scene.session();
        Connection[] connections = {scene.connectAs(scene.own("x")), scene.connectAs(scene.own("y"))};
        Session[] sessions = {connections[0].createSession(), connections[1].createSession()};
        MessageConsumer[] consumers = new MessageConsumer[2];
        for (int i = 0; i < 2; i++) consumers[i] = sessions[i].createDurableSubscriber(scene.topic(sessions[i]), NEWS);
        Scene.send(other, scene.topic(other), "one");
        for (int i = 0; i < 2; i++) Scene.expect(consumers[i], "one");
        consumers[0].close();
        sessions[0].unsubscribe(NEWS);
        Scene.send(other, scene.topic(other), "two");
        Scene.expect(consumers[1], "two");
        consumers[1].close();
        sessions[1].unsubscribe(NEWS);
        return "";
    }

    /** A subscription that is in use cannot be given up, and one that is not there neither. */
    private static String durableRefusedWhileUsed(Scene scene) throws JMSException {
        Session session = scene.connectAs(scene.own("client")).createSession();
        StringBuilder seen = new StringBuilder();
        try {
            session.unsubscribe("nothing");
            throw new AssertionError("unsubscribed from nothing");
        } catch (JMSException e) {
            seen.append(e.getClass().getSimpleName());
        }
        MessageConsumer consumer = session.createDurableSubscriber(scene.topic(session), NEWS);
        try {
            session.unsubscribe(NEWS);
            throw new AssertionError("unsubscribed while in use");
        } catch (JMSException e) {
            seen.append(' ').append(e.getClass().getSimpleName());
        }
        consumer.close();
        session.unsubscribe(NEWS);
        return seen.toString();
    }

    /** Two consumers share the messages, on two connections, or on one where the subscription belongs to a client.
     * With a large prefetch, the first one could get nearly all before the broker has credit of the second one. */
    private static String shared(Scene scene, boolean durable, String client) throws JMSException {
        String few = "&jms.prefetchPolicy.all=5";
        Connection one = scene.connect(scene.here, client, few);
        Connection two = client == null ? scene.connect(scene.elsewhere, null, few) : one;
        String name = client == null ? scene.own(NEWS).replace('.', '-') : NEWS;
        Session[] sessions = {one.createSession(), two.createSession()};
        MessageConsumer[] consumers = new MessageConsumer[2];
        for (int i = 0; i < 2; i++) consumers[i] = sharing(sessions[i], scene, name, durable);
        Session other = scene.session();
        String[] texts = new String[100];
        for (int i = 0; i < 100; i++) texts[i] = "" + i;
        Scene.send(other, scene.topic(other), texts);
        boolean[] there = new boolean[100];
        int[] counts = {0, 0};
        long end = System.currentTimeMillis() + Scene.DEADLINE_MS;
        while (counts[0] + counts[1] < 100 && System.currentTimeMillis() < end) {
            for (int i = 0; i < 2; i++) {
                Message message = consumers[i].receive(20);
                if (message == null) continue;
                counts[i]++;
                int number = Integer.parseInt(Scene.text(message));
                if (there[number]) throw new AssertionError(number + " came twice");
                there[number] = true;
            }
        }
        Scene.same("messages", 100, counts[0] + counts[1]);
        if (Math.min(counts[0], counts[1]) < 10) throw new AssertionError(counts[0] + " and " + counts[1]);
        for (int i = 0; i < 2; i++) consumers[i].close();
        if (durable) sessions[0].unsubscribe(name);
        return "";
    }

    private static MessageConsumer sharing(Session session, Scene scene, String name, boolean durable)
            throws JMSException {
        return durable
                ? session.createSharedDurableConsumer(scene.topic(session), name)
                : session.createSharedConsumer(scene.topic(session), name);
    }

    /** A shared durable subscription collects while nobody is there, and ends when it is given up. */
    private static String sharedDurableLeft(Scene scene) throws JMSException {
        String name = scene.own(NEWS).replace('.', '-');
        Session other = scene.session();
        Connection connection = scene.connect();
        Session session = connection.createSession();
        sharing(session, scene, name, true);
        connection.close();
        Scene.send(other, scene.topic(other), "one", "two");
        session = scene.connect(scene.elsewhere, null, "").createSession();
        MessageConsumer consumer = sharing(session, scene, name, true);
        Scene.expect(consumer, "one", "two");
        consumer.close();
        Scene.send(other, scene.topic(other), "three");
        session.unsubscribe(name);
        consumer = sharing(session, scene, name, true);
        Scene.expectNothing(consumer);
        consumer.close();
        session.unsubscribe(name);
        return "";
    }
}
