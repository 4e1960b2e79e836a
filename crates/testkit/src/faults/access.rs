//! Tokens, the audit and the deletion of namespaces behind the dials of a store.

use super::{FaultyStore, StoreGroup};
use crate::decorators::{methods_of, names::*};

methods_of! { AccessStore fails(run_beside StoreGroup) FaultyStore {} }

methods_of! { AuditStore fails(run_beside StoreGroup) FaultyStore {} }

methods_of! { LabelStore fails(run StoreGroup) FaultyStore {} }

methods_of! { NamespaceStore fails(run StoreGroup) FaultyStore {} }

methods_of! { LedgerStore fails(run StoreGroup) FaultyStore {} }
