import org.voltdb.VoltCompoundProcedure;
import org.voltdb.client.ClientResponse;

/** Moves an amount from one row to another, in stages that are transactions of their own. */
public class Stages extends VoltCompoundProcedure {
    private long from;
    private long to;
    private long amount;
    private String how;

    public long run(String told, long source, long target, long moved) {
        how = told;
        from = source;
        to = target;
        amount = moved;
        newStageList(this::look).then(this::move).then(this::finish).build();
        return 0L;
    }

    private void look(ClientResponse[] none) {
        if (how.equals("throw")) {
            throw new IllegalArgumentException("a broken promise");
        }
        if (how.equals("loop")) {
            while (true) {
                amount++;
            }
        }
        queueProcedureCall("T.select", from);
        queueProcedureCall("T.select", to);
        if (how.equals("many")) {
            for (int i = 0; i < 9; i++) {
                queueProcedureCall("T.select", from);
            }
        }
        if (how.equals("nested")) {
            queueProcedureCall("Stages", how, from, to, amount);
        }
    }

    private void move(ClientResponse[] rows) {
        setAppStatusString(how);
        if (how.equals("nested")) {
            abortProcedure(rows[2].getStatusString());
        }
        for (ClientResponse row : rows) {
            if (row.getStatus() != ClientResponse.SUCCESS
                    || row.getResults()[0].getRowCount() == 0) {
                abortProcedure("there is no such row");
            }
        }
        long has = rows[0].getResults()[0].fetchRow(0).getLong(1);
        long had = rows[1].getResults()[0].fetchRow(0).getLong(1);
        if (has < amount) {
            abortProcedure("too little: " + has);
        }
        queueProcedureCall("T.upsert", from, has - amount);
        queueProcedureCall("T.upsert", to, had + amount);
    }

    private void finish(ClientResponse[] answers) {
        if (how.equals("unfinished")) {
            return;
        }
        completeProcedure(amount);
    }
}
