import org.voltdb.VoltProcedure;

/** The initializer of a class that it only may need fails. */
public class FailingInitializer extends VoltProcedure {
    public long run(long key) {
        return key > 0 ? key : Rarely.VALUE;
    }

    private static class Rarely {
        static final long VALUE = Long.parseLong("no number");
    }
}
