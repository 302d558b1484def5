"""A topic that loses its newest messages, and what a table of it gets after that."""

from support.pipelines import CONFIG, CUSTOMERS, ORDERS, Pipeline, messages

CHANGELOG = CONFIG.replace("batch_messages: 4", "batch_messages: 100").replace(
    "table}", 'table}", mode: "changelog'
)


def says(how):
    return CHANGELOG.replace('mode: "changelog', f'mode: changelog, on_hole: "{how}')


def cut(pipeline, end, topic=ORDERS):
    """The broker has lost what came at and after an offset."""
    pipeline.session.kafka[:] = [
        one for one in pipeline.session.kafka if one.topic != topic or one.offset < end
    ]


def begun(how):
    pipeline = Pipeline(says(how))
    pipeline.send(*messages(ORDERS, *range(10)), *messages(CUSTOMERS, 0))
    pipeline.minute()
    return pipeline


def minutes(pipeline, count=5):
    for _ in range(count):
        pipeline.minute()


def after_it(pipeline):
    """The offsets that were written after the first ten."""
    return [offset for *_, offset in pipeline.lake.tables["shop.orders"].rows][10:]


def whys(logs):
    return [one["hole"] for one in logs if one["event"] == "changes_missing"]
