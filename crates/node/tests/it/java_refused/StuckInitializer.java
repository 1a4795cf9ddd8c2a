/** Its static initializer waits in code of the JDK that takes no notice of an interrupt. */
public class StuckInitializer {
    static final Object NEVER = new java.util.concurrent.CompletableFuture<Object>().join();
}
