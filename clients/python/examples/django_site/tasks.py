"""Tasks as Django has them; nothing here knows Punctual."""

try:
    from django.tasks import task
except ModuleNotFoundError:
    from django_tasks import task


@task(queue_name="mail", priority=100)
def welcome(name: str, *, shout: bool = False) -> str:
    text = f"welcome, {name}"
    return text.upper() if shout else text


@task(takes_context=True)
def fails(context) -> None:
    raise ValueError(f"attempt {context.attempt}")
