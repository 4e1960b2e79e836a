//! Asks before something is done: what will happen, to how many, and whether it can be undone. A page; scripts show it in a
//! dialog.

use crate::{context::Context, fault::Fault, form, parts, view::View};
use maud::{Markup, html};

pub(crate) struct Confirm<'a> {
    pub(crate) title: &'a str,
    /// The description of the change and of its subject.
    pub(crate) says: Markup,
    /// Fields, where something is to be chosen.
    pub(crate) fields: Markup,
    /// The label of the button: a verb and its subject.
    pub(crate) does: &'a str,
    /// The permission that the call needs.
    pub(crate) permission: &'a str,
    /// It cannot be undone, or stops work.
    pub(crate) is_dangerous: bool,
    /// The address for a user who cancels.
    pub(crate) back: String,
}

impl Confirm<'_> {
    pub(crate) fn view(self, context: &Context) -> View {
        self.with(context, None)
    }

    /// Once more, because the API did not take it.
    pub(crate) fn with(self, context: &Context, fault: Option<&Fault>) -> View {
        let lacks = context.lacks(self.permission);
        let form = html! {
            div.confirm #confirm {
                @if let Some(fault) = fault { (parts::faults(fault)) }
                div.says { (self.says) }
                form method="post" action=(context.here()) data-confirm {
                    input type="hidden" name=(form::TOKEN) value=(context.form_token);
                    (self.fields)
                    div.buttons {
                        @match &lacks {
                            None => button #confirm-button class=(if self.is_dangerous { "danger" } else { "primary" }) type="submit" { (self.does) },
                            Some(why) => (parts::dead_button(self.does, why)),
                        }
                        a.button href=(self.back) data-dismiss { "Leave it" }
                    }
                    @if let Some(why) = &lacks { p.hint { (why) } }
                }
            }
        };
        View::new(
            self.title,
            if self.is_dangerous {
                "This cannot be undone. Nothing has been done yet."
            } else {
                "Nothing has been done yet."
            },
        )
        .part(form)
    }
}
