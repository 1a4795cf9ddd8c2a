//! Internet addresses as numbers and bytes.

use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_plan_ir::Function;
use lockstep_types::{Datum, SqlType};
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let value = arguments.value(0);
    match arguments.function {
        Function::InetNtoa if arguments.sql_type(0) != SqlType::BigInt => {
            let message = "Unsupported non-BIGINT type for SQL INET_NTOA function";
            Err(SqlError::argument(message))
        }
        _ if value.is_null() => Ok(Datum::Null),
        Function::InetAton => {
            let text = arguments.text(0)?;
            let address: Ipv4Addr = text.parse().map_err(|_| unrecognized("IPv4", text))?;
            Ok(Datum::Int(u32::from(address).into()))
        }
        Function::InetNtoa => {
            let number = arguments.integer(0)?;
            let bits = u32::try_from(number).map_err(|_| {
                SqlError::out_of_range(format!("The value {number} is no IPv4 address"))
            })?;
            arguments.new_text(&Ipv4Addr::from(bits).to_string())
        }
        Function::Inet6Aton => {
            let text = arguments.text(0)?;
            let address: Ipv6Addr = text.parse().map_err(|_| unrecognized("IPv6", text))?;
            Ok(Datum::Bytes(arguments.arena.copy(&address.octets())))
        }
        _ => {
            let Datum::Bytes(bytes) = value else {
                return Err(arguments.mistyped(0, SqlType::Varbinary));
            };
            let octets: [u8; 16] = bytes.try_into().map_err(|_| {
                SqlError::argument(format!(
                    "INET6_NTOA takes 16 bytes, not {}: the value is no IPv6 address",
                    bytes.len()
                ))
            })?;
            arguments.new_text(&Ipv6Addr::from(octets).to_string())
        }
    }
}

#[cold]
fn unrecognized(kind: &str, text: &str) -> SqlError {
    SqlError::argument(format!("Unrecognized format for {kind} address string: <{text}>"))
}
