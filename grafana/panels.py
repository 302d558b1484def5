"""What panels are made of: a number, lines, bars, and the expressions that they show."""

from collections.abc import Sequence

from grafana_foundation_sdk.builders import common, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import (
    BigValueColorMode,
    BigValueGraphMode,
    DataSourceRef,
    GraphDrawStyle,
    GraphThresholdsStyleMode,
    LegendDisplayMode,
    LegendPlacement,
    StackingMode,
    VisibilityMode,
)
from grafana_foundation_sdk.models.dashboard import Threshold, ThresholdsMode

SOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
TABLE = 'table=~"$table"'
RATE = "$__rate_interval"
"""Grafana's own choice: never shorter than four scrapes, so that no rate comes out empty."""
WIDTH, STAT_WIDTH, HEIGHT, STAT_HEIGHT = 8, 4, 8, 4

Query = tuple[str, str]
"""An expression, and how its series are called in the legend."""


def thresholds(warning: float | None = None, critical: float | None = None) -> build.ThresholdsConfig:
    """Green, yellow from `warning`, red from `critical`."""
    steps = [Threshold(value=None, color="green")]
    steps += [] if warning is None else [Threshold(value=warning, color="yellow")]
    steps += [] if critical is None else [Threshold(value=critical, color="red")]
    return build.ThresholdsConfig().mode(ThresholdsMode.ABSOLUTE).steps(steps)


def targets(queries: Sequence[Query]) -> list[Builder[Dataquery]]:
    """The queries of a panel, named A, B, …."""
    return [
        prometheus.Dataquery()
        .datasource(SOURCE)
        .ref_id(chr(ord("A") + i))
        .expr(expr)
        .legend_format(legend)
        .range()
        for i, (expr, legend) in enumerate(queries)
    ]


def number(
    title: str,
    description: str,
    unit: str,
    expr: str,
    warning: float | None = None,
    critical: float | None = None,
) -> stat.Panel:
    """One number, coloured by its limits."""
    reduce = common.ReduceDataOptions().calcs(["lastNotNull"])
    panel = stat.Panel().title(title).description(description).unit(unit).datasource(SOURCE)
    panel = (
        panel.targets(targets([(expr, "")])).thresholds(thresholds(warning, critical)).reduce_options(reduce)
    )
    panel = panel.color_mode(BigValueColorMode.VALUE).graph_mode(BigValueGraphMode.AREA)
    return panel.span(STAT_WIDTH).height(STAT_HEIGHT)


def graph(
    title: str, description: str, unit: str, *queries: Query, limit: float | None = None
) -> timeseries.Panel:
    """Lines over time; a limit is drawn as a dashed line."""
    legend = common.VizLegendOptions().display_mode(LegendDisplayMode.LIST).placement(LegendPlacement.BOTTOM)
    panel = timeseries.Panel().title(title).description(description).unit(unit).datasource(SOURCE)
    panel = panel.targets(targets(queries)).legend(legend.show_legend(show_legend=True)).min(0)
    panel = panel.fill_opacity(10).show_points(VisibilityMode.NEVER).span(WIDTH).height(HEIGHT)
    if limit is not None:
        style = common.GraphThresholdsStyleConfig().mode(GraphThresholdsStyleMode.DASHED)
        panel = panel.thresholds(thresholds(critical=limit)).thresholds_style(style)
    return panel


def stacked(title: str, description: str, unit: str, *queries: Query) -> timeseries.Panel:
    """Parts of a whole over time."""
    stacking = common.StackingConfig().mode(StackingMode.NORMAL).group("A")
    return graph(title, description, unit, *queries).stacking(stacking).fill_opacity(40)


def bars(title: str, description: str, *queries: Query) -> timeseries.Panel:
    """How often something happened, stacked bars."""
    return stacked(title, description, "short", *queries).draw_style(GraphDrawStyle.BARS).fill_opacity(80)


def worst(metric: str) -> str:
    """The highest value for each table, over all daemons."""
    return f"max by (table) ({metric}{{{TABLE}}})"


def per_second(metric: str, by: str = "table", matchers: str = TABLE) -> str:
    """A counter's rate, summed."""
    return f"sum by ({by}) (rate({metric}{{{matchers}}}[{RATE}]))"


def times(metric: str, by: str = "table", matchers: str = TABLE) -> str:
    """How often a counter moved in each interval of the picture, summed."""
    return f"sum by ({by}) (increase({metric}{{{matchers}}}[{RATE}]))"


def quantiles(metric: str, by: str = "") -> tuple[Query, Query]:
    """The median and the 99th percentile of a histogram."""
    labels = f"{by}, le" if by else "le"
    legend = f"{{{{{by}}}}} " if by else ""

    def quantile(q: float) -> str:
        return f"histogram_quantile({q}, sum by ({labels}) (rate({metric}_bucket[{RATE}])))"

    return (quantile(0.5), f"{legend}p50"), (quantile(0.99), f"{legend}p99")
