package org.voltdb.task;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.voltdb.client.ClientResponse;
import org.voltdb.utils.CompoundErrors;
import tasks.Schedules;

/** The classes of tasks, driven as a host would. */
class TaskTest {
    /** What became of an action that succeeded. */
    private record Result(ActionType getType, String getProcedure, Object attachment)
            implements ActionResult {
        @Override
        public long getInterval(TimeUnit timeUnit) {
            return timeUnit.convert(5, TimeUnit.MILLISECONDS);
        }

        @Override
        public Object[] getProcedureParameters() {
            return new Object[0];
        }

        @Override
        public ClientResponse getResponse() {
            return null;
        }

        @Override
        @SuppressWarnings("unchecked")
        public <T> T getAttachment() {
            return (T) attachment;
        }
    }

    @Test
    void intervalsFollowResults() {
        Interval first = new Schedules.BackOff().getFirstInterval();
        assertEquals(1_000, first.getInterval(TimeUnit.MILLISECONDS));
        Interval next = first.getCallback().apply(new Result(ActionType.PROCEDURE, "P", null));
        assertEquals(2, next.getInterval(TimeUnit.SECONDS));
        assertNull(new Schedules.BackOff().getDependencies());
    }

    @Test
    void actionsFollowResults() {
        Schedules.Sweep sweep = new Schedules.Sweep();
        sweep.initialize(new Helper(), "Sweep", 1, 2);
        assertTrue(sweep.isReadOnly() && sweep.restrictProcedureByScope());
        Action action = sweep.getFirstAction();
        assertArrayEquals(new Object[] {2}, action.getProcedureParameters());
        action = action.getCallback().apply(new Result(ActionType.PROCEDURE, "Sweep", null));
        assertEquals("Sweep", action.getProcedure());
        action = action.getCallback().apply(new Result(ActionType.PROCEDURE, "Sweep", null));
        assertSame(ActionType.CALLBACK, action.getType());
        assertNull(action.getProcedure());
        assertEquals(0, action.getProcedureParameters().length);
        assertEquals("at the end", action.getStatusMessage());
        action = action.getCallback().apply(new Result(ActionType.CALLBACK, null, null));
        assertSame(ActionType.EXIT, action.getType());
        assertEquals("all swept", action.getStatusMessage());
        assertNull(action.getCallback());
        assertEquals("Q is missing\nQ writes",
                Schedules.Sweep.validateParameters(new Helper(), "Q"));
    }

    @Test
    void scheduledActionsHaveAttachments() {
        ScheduledAction action = new Schedules.Attached().getFirstScheduledAction();
        assertEquals(List.of("begun"), action.<List<String>>getAttachment());
        assertEquals("begun", action.getStatusMessage());
        action = action.getCallback()
                .apply(new Result(ActionType.CALLBACK, null, action.getAttachment()));
        assertEquals(5_000, action.getInterval(TimeUnit.NANOSECONDS));
        assertArrayEquals(new Object[] {null, 0}, action.getProcedureParameters());
        action = action.getCallback()
                .apply(new Result(ActionType.PROCEDURE, "P", action.getAttachment()));
        assertSame(ActionType.EXIT, action.getType());
        assertNull(action.getStatusMessage());
        assertSame(ActionType.ERROR, ScheduledAction.error("no").getType());
    }

    @Test
    void intervalsAndActionsGoTogether() {
        Interval interval = new Schedules.BackOff().getFirstInterval();
        Action last = Action.error("over");
        Action call = Action.procedureCall(result -> last, "P", 7);
        ScheduledAction both = ScheduledAction.of(interval, call);
        assertEquals(1, both.getInterval(TimeUnit.SECONDS));
        assertEquals("P", both.getProcedure());
        ScheduledAction end = both.getCallback()
                .apply(new Result(ActionType.PROCEDURE, "P", null));
        assertEquals("over", end.getStatusMessage());
        assertTrue(end.getType().isStop());
        assertThrows(IllegalArgumentException.class, () -> ScheduledAction.of(call));
        assertThrows(IllegalArgumentException.class, () -> ScheduledAction.of(interval, last));
        assertThrows(NullPointerException.class, () -> Action.callback(null));
        assertThrows(NullPointerException.class, () -> Action.procedureCall(null, "P"));
    }

    @Test
    void scopesAndErrors() {
        for (TaskScope scope : TaskScope.values()) {
            assertSame(scope, TaskScope.fromId(scope.getId()));
            assertEquals(scope.name(), TaskScope.translateIdToName(scope.getId()));
        }
        assertSame(TaskScope.DATABASE, TaskScope.fromName(null));
        assertSame(TaskScope.PARTITIONS, TaskScope.fromName("partitions"));
        assertThrows(IllegalArgumentException.class, () -> TaskScope.fromId((byte) 3));
        assertThrows(IllegalArgumentException.class, () -> TaskScope.fromName("cluster"));
        CompoundErrors errors = new CompoundErrors();
        errors.addErrorMessage(null);
        assertFalse(errors.hasErrors());
        assertNull(errors.getErrorMessage());
        errors.addErrorMessage("a");
        errors.addErrorMessage("b");
        assertEquals("a;b", errors.getErrorMessage(';'));
    }

    /** A helper that knows no procedure. */
    private static final class Helper implements TaskHelper {
        @Override
        public String getTaskName() {
            return "sweep";
        }

        @Override
        public TaskScope getTaskScope() {
            return TaskScope.DATABASE;
        }

        @Override
        public int getScopeId() {
            return -1;
        }

        @Override
        public boolean isDebugLoggingEnabled() {
            return true;
        }

        @Override
        public void logDebug(String message) {}

        @Override
        public void logDebug(String message, Throwable throwable) {}

        @Override
        public void logInfo(String message) {}

        @Override
        public void logInfo(String message, Throwable throwable) {}

        @Override
        public void logWarning(String message) {}

        @Override
        public void logWarning(String message, Throwable throwable) {}

        @Override
        public void logError(String message) {}

        @Override
        public void logError(String message, Throwable throwable) {}

        @Override
        public void validateProcedure(CompoundErrors errors, boolean restrictProcedureByScope,
                String procedureName, Object[] parameters) {
            errors.addErrorMessage(procedureName + " is missing");
        }

        @Override
        public boolean isProcedureReadOnly(String procedureName) {
            return false;
        }
    }
}
