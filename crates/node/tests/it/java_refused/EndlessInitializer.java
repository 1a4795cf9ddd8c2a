/** Its static initializer does not end. */
public class EndlessInitializer {
    static final long NEVER = never();

    private static long never() {
        long n = 0;
        while (true) {
            n++;
        }
    }
}
