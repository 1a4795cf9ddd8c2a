package tasks;

import java.util.Collection;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.voltdb.client.ClientResponse;
import org.voltdb.task.Action;
import org.voltdb.task.ActionGenerator;
import org.voltdb.task.ActionResult;
import org.voltdb.task.ActionScheduler;
import org.voltdb.task.ActionType;
import org.voltdb.task.Interval;
import org.voltdb.task.IntervalGenerator;
import org.voltdb.task.ScheduledAction;
import org.voltdb.task.TaskHelper;
import org.voltdb.task.TaskScope;
import org.voltdb.utils.CompoundErrors;

/** Classes of tasks as users write them: they use all that the API has. */
public final class Schedules {
    private Schedules() {}

    /** Waits longer after each failure. */
    public static final class BackOff implements IntervalGenerator {
        private long seconds = 1;

        @Override
        public Interval getFirstInterval() {
            return new Interval(seconds, TimeUnit.SECONDS, this::next);
        }

        private Interval next(ActionResult result) {
            ClientResponse response = result.getResponse();
            boolean failed = response == null || response.getStatus() != ClientResponse.SUCCESS;
            seconds = failed ? 2 * seconds : 1;
            return new Interval(seconds, TimeUnit.SECONDS, this::next);
        }
    }

    /** Calls a procedure with numbers that grow, and ends at a limit. */
    public static final class Sweep implements ActionGenerator {
        private TaskHelper helper;
        private String procedure;
        private int at;

        public void initialize(TaskHelper helper, String procedure, Object... rest) {
            this.helper = helper;
            this.procedure = procedure;
            at = rest.length;
        }

        public static String validateParameters(TaskHelper helper, String procedure,
                Object... rest) {
            CompoundErrors errors = new CompoundErrors();
            helper.validateProcedure(errors, helper.getTaskScope() == TaskScope.PARTITIONS,
                    procedure, rest);
            if (!helper.isProcedureReadOnly(procedure)) {
                errors.addErrorMessage(procedure + " writes");
            }
            return errors.getErrorMessage();
        }

        @Override
        public Action getFirstAction() {
            return Action.procedureCall(this::next, procedure, at);
        }

        private Action next(ActionResult result) {
            if (result.getType() == ActionType.CALLBACK) {
                return Action.exit("swept").setStatusMessage("all swept");
            }
            if (helper.isDebugLoggingEnabled()) {
                helper.logDebug(helper.getTaskName() + " " + helper.getScopeId());
                helper.logDebug("of", new IllegalStateException("a trace"));
            }
            return ++at > 3 ? Action.callback(this::next).setStatusMessage("at the end")
                    : Action.procedureCall(this::next, procedure, at);
        }

        @Override
        public boolean restrictProcedureByScope() {
            return true;
        }

        @Override
        public boolean isReadOnly() {
            return true;
        }

        @Override
        public Collection<String> getDependencies() {
            return List.of(BackOff.class.getName());
        }
    }

    /** Carries its state from action to action as an attachment. */
    public static final class Attached implements ActionScheduler {
        @Override
        public ScheduledAction getFirstScheduledAction() {
            return ScheduledAction.callback(0, TimeUnit.MILLISECONDS, this::next)
                    .setAttachment(List.of("begun")).setStatusMessage("begun");
        }

        private ScheduledAction next(ActionResult result) {
            List<String> before = result.getAttachment();
            if (result.getInterval(TimeUnit.MILLISECONDS) > 100) {
                return ScheduledAction.error("late after " + before);
            }
            return before.size() > 1 ? ScheduledAction.exit(null)
                    : ScheduledAction.procedureCall(5, TimeUnit.MICROSECONDS, this::next, "P",
                            result.getProcedure(), result.getProcedureParameters().length)
                            .setAttachment(List.of("begun", "called"));
        }
    }
}
