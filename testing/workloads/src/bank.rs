//! Bank: accounts, deposits at one partition, transfers over two. The sum of all balances
//! changes by deposits only.

use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType};

/// Tables and SQL procedures. `TransferAll` does what `TransferSql` does, without saying which
/// partitions it needs.
pub const SCHEMA: &str = "\
CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE accounts ON COLUMN id;
CREATE PROCEDURE Deposit PARTITION ON TABLE accounts COLUMN id PARAMETER 1 AS
  UPDATE accounts SET balance = balance + ? WHERE id = ?;
CREATE PROCEDURE TransferSql
  PARTITION ON TABLE accounts COLUMN id PARAMETER 1 AND ON TABLE accounts COLUMN id PARAMETER 3
  AS BEGIN
    UPDATE accounts SET balance = balance + ? WHERE id = ?;
    UPDATE accounts SET balance = balance + ? WHERE id = ?;
  END;
CREATE PROCEDURE TransferAll AS BEGIN
    UPDATE accounts SET balance = balance + ? WHERE id = ?;
    UPDATE accounts SET balance = balance + ? WHERE id = ?;
  END;
CREATE PROCEDURE Total AS SELECT SUM(balance), COUNT(*) FROM accounts;
";

/// The native procedures; `Transfer` declares its partitions, `TransferAnywhere` does not.
pub const NATIVE_SCHEMA: &str = "\
CREATE PROCEDURE
  PARTITION ON TABLE accounts COLUMN id PARAMETER 0 AND ON TABLE accounts COLUMN id PARAMETER 1
  FROM NATIVE Transfer;
CREATE PROCEDURE FROM NATIVE TransferAnywhere;
";

/// `Transfer(from, to, amount)`: reads the balance, aborts where it is too small, then moves the
/// money in a second round. Answers with the balance that is left.
pub struct Transfer {
    /// The name under which it is registered.
    pub name: &'static str,
}

const READ: usize = 0;
const CHANGE: usize = 1;

impl NativeProcedure for Transfer {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        const { &[NUMBER, NUMBER, NUMBER] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("read", "SELECT balance FROM accounts WHERE id = ?;"),
            ("change", "UPDATE accounts SET balance = balance + ? WHERE id = ?;"),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (from, to) = (context.parameter(0), context.parameter(1));
        let Datum::Int(amount) = context.parameter(2) else {
            return Err(context.abort("the amount is NULL"));
        };
        context.queue(READ, &[from])?;
        let balance = match context.execute()?.scalar(0)? {
            Some(Datum::Int(balance)) => balance,
            _ => return Err(context.abort(format!("there is no account {from}"))),
        };
        if balance < amount {
            return Err(context.abort(format!("account {from} has {balance}, not {amount}")));
        }
        context.queue(CHANGE, &[Datum::Int(-amount), from])?;
        context.queue(CHANGE, &[Datum::Int(amount), to])?;
        let changed = context.execute()?;
        if changed.scalar(1)? != Some(Datum::Int(1)) {
            return Err(context.abort(format!("there is no account {to}")));
        }
        context.return_scalar(balance - amount);
        Ok(())
    }
}
