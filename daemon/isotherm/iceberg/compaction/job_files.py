"""Which files of a partition a job takes: data, the deletes that it reads with them, and those that leave."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from isotherm.contract.identity import PartitionKey
from isotherm.contract.paths import normalised
from isotherm.core.model.files import NAMED_BY_PATH, FileKind, LiveFile
from isotherm.core.model.job_limits import MAX_JOB_FILES, keys_bytes
from isotherm.core.model.jobs import Take
from isotherm.core.model.refusals import Reason, Refusal
from isotherm.iceberg.manifests.deletes import DataFiles, is_over, mergeable
from isotherm.iceberg.manifests.live import LiveEntry


@dataclass(frozen=True)
class Choice:
    """Which files of a partition a job takes."""

    spec_id: int
    data: Sequence[LiveEntry]
    """All data files of the spec."""
    deletes: Sequence[LiveEntry]
    """All position-delete files and deletion vectors of the partition."""
    chosen: Sequence[LiveEntry]
    """The data files that are rewritten."""
    applicable: Sequence[LiveEntry]
    """The deletes that are read: those that may name rows of one of these files, and those that are merged."""
    merged: Sequence[LiveEntry]
    """Position deletes of which one file is made."""
    converted: Sequence[LiveEntry]
    """Equality deletes that become position deletes."""
    dead: Sequence[LiveEntry]
    """Deletes that apply to nothing, where a job is about deletes: nobody reads them, and they leave with its commit."""
    elsewhere: int = 0
    """Equality deletes of the partition that a job should take away, and that apply to older data of others too."""

    @property
    def identities(self) -> Iterator[tuple[str, int | None]]:
        """Of every file that the job takes; of one that the table names twice as often as it is taken."""
        return (entry.identity for entry in (*self.chosen, *self.applicable))

    @cached_property
    def taken(self) -> frozenset[tuple[str, int | None]]:
        """The same, each once."""
        return frozenset(self.identities)

    @property
    def is_merge(self) -> bool:
        """Whether what deletes say of files that stay is written again."""
        return bool(self.merged or self.converted)

    def staying(self) -> Iterator[LiveFile]:
        """The data files that stay and that the deletes may name, by path, as position-delete files must have them."""
        stay = [entry for entry in self.data if entry.identity not in self.taken]
        read = [delete for delete in self.applicable if delete.kind in NAMED_BY_PATH]
        named = DataFiles(stay).named_by(read)
        newest = max((delete.sequence_number for delete in self.converted), default=0)
        for entry in sorted(stay, key=lambda entry: entry.path):
            if entry.identity in named or entry.sequence_number < newest:
                yield entry.live_file()

    def refusal(self, take: Take) -> Refusal | None:
        """Where one file would become one file."""
        if len(self.chosen) + len(self.applicable) > 1 or self.converted or self.dead:
            return None
        if self.chosen and take.output_spec_id is not None:
            return None  # one file becomes one of another spec
        if self.elsewhere:
            why = f"{self.elsewhere} equality-delete files apply to older data of other partitions too, and stay until a job"
            return Refusal(Reason.NOTHING_TO_DO, f"{why} has rewritten that")
        of = f"{len(self.chosen)} of {len(self.data)} data files is smaller than {take.below_bytes} bytes"
        return Refusal(Reason.NOTHING_TO_DO, f"{of}, and {len(self.applicable)} delete files apply")


def choice_of(
    live: Sequence[LiveEntry],
    partition: PartitionKey,
    spec_id: int | None,
    take: Take,
    oldest: Mapping[int, int],
    among: Collection[tuple[str, int | None]] | None = None,
) -> Choice:
    """What a job takes of a partition's live files.

    Args:
        live: these.
        partition: the partition.
        spec_id: the spec of which it takes files. None: that of which it would take the most.
        take: what is wanted.
        oldest: the oldest data of every spec, by `oldest_data`, where deletes may leave.
        among: the data files that may be rewritten. None: all.
    """
    deletes = [entry for entry in live if entry.kind in NAMED_BY_PATH]
    equality = [entry for entry in live if entry.kind is FileKind.EQUALITY_DELETES]
    every = [entry for entry in live if entry.kind is FileKind.DATA]
    # Deletes that apply everywhere come with every partition, and are the business of their own.
    own = [entry for entry in equality if entry.partition == partition]
    dead = _dead(every, [*deletes, *own], partition, oldest) if take.with_deletes else []
    wanted = _wanted(every, [*deletes, *equality], take, has_dead=bool(dead))
    if among is not None:
        wanted = [entry for entry in wanted if entry.identity in among]
        spec_id = _spec_with_most_files(wanted)
    # Those that apply elsewhere too would stay, and become due again.
    gone, converts = DataFiles([]), own if take.converts_equality else []
    convertible = [one for one in converts if is_over(one, gone, partition, one.spec_id, oldest)]
    if spec_id is None:
        of_deletes = [*(deletes if take.merges_deletes else ()), *convertible]
        spec_id = _spec_with_most_files([*wanted, *of_deletes, *dead])
    over = {one.identity for one in (*convertible, *dead)}
    is_about_them = take.with_deletes or take.converts_equality
    elsewhere = sum(one.is_global and is_about_them and one.identity not in over for one in own)
    data = [entry for entry in live if entry.spec_id == spec_id and entry.kind is FileKind.DATA]
    converted = [one for one in convertible if one.spec_id == spec_id]
    positions = [entry for entry in deletes if entry.kind is FileKind.POSITION_DELETES]
    merged = mergeable(positions, live, spec_id, take) if take.merges_deletes else []
    beside_bytes = sum(delete.size_bytes for delete in (*merged, *converted))
    if converted:
        beside_bytes += keys_bytes(sum(one.rows for one in every), sum(one.size_bytes for one in every))
    leaving = {delete.identity for delete in (*merged, *converted)}
    along = [delete for delete in (*deletes, *equality) if delete.identity not in leaving]
    chosen = _chosen([entry for entry in wanted if entry.spec_id == spec_id], along, take, beside_bytes)
    rewritten = DataFiles(chosen)
    applicable = [
        delete
        for delete in (*deletes, *equality)
        if delete.identity in leaving or rewritten.may_be_named_by(delete)
    ]
    dead = [entry for entry in dead if entry.spec_id == spec_id]
    if dead and len(chosen) == 1 and not applicable and among is None:
        chosen = []
    return Choice(spec_id, data, deletes, chosen, applicable, merged, converted, dead, elsewhere)


def _dead(
    data: Sequence[LiveEntry],
    deletes: Iterable[LiveEntry],
    partition: PartitionKey,
    oldest: Mapping[int, int],
) -> list[LiveEntry]:
    """Those of a partition's deletes that apply to nothing: `replace_snapshot` takes them out with any commit."""
    staying = DataFiles(data)
    return [
        delete
        for delete in deletes
        if (
            is_over(delete, staying, partition, delete.spec_id, oldest)
            if delete.kind is FileKind.EQUALITY_DELETES
            else not staying.may_be_named_by(delete)
        )
    ]


def _wanted(
    data: Sequence[LiveEntry], deletes: Sequence[LiveEntry], take: Take, *, has_dead: bool
) -> list[LiveEntry]:
    """The data files that a job is about: those that are small enough, and those that deletes may name."""
    if take.through_number is not None:
        data = [entry for entry in data if entry.sequence_number <= take.through_number]
    if not take.with_deletes:
        return [entry for entry in data if entry.size_bytes < take.below_bytes]
    named = DataFiles(data).named_by(deletes)
    heavy = named - _lightly_deleted(data, deletes, take.spared_ratio)
    # Where all of it may stay, what counts as deleted are dead deletes, which go anyway, or it is counted otherwise than file
    # by file.
    named = heavy if heavy or has_dead else named
    return [entry for entry in data if entry.size_bytes < take.below_bytes or entry.identity in named]


def _lightly_deleted(
    data: Sequence[LiveEntry], deletes: Sequence[LiveEntry], least: float
) -> set[tuple[str, int | None]]:
    """The data files of which only delete files of their own name rows, and of a smaller part than this."""
    rows, others = Counter[str](), list[LiveEntry]()
    for delete in deletes:
        if delete.kind in NAMED_BY_PATH and delete.referenced_data_file is not None:
            rows[normalised(delete.referenced_data_file)] += delete.rows
        else:
            others.append(delete)
    named_by_others = DataFiles(data).named_by(others)
    return {
        entry.identity
        for entry in data
        if rows[normalised(entry.path)] < least * entry.rows and entry.identity not in named_by_others
    }


def _chosen(
    wanted: Sequence[LiveEntry], along: Iterable[LiveEntry], take: Take, beside_bytes: int
) -> list[LiveEntry]:
    """As many of them as one job may take beside what else it reads: the smallest first, or with deletes the oldest.

    A delete file leaves when no file is left that is as old as it. So deletes leave in the order in which they came, also
    where writers bring new ones all the time.

    Args:
        wanted: the data files.
        along: deletes that are read with those of them that they may name.
        take: how much may be read.
        beside_bytes: what is read whatever is chosen.
    """
    order = in_order if take.with_deletes else _in_size
    if take.at_most_bytes is None:
        return sorted(wanted, key=order)
    chosen, least = list[LiveEntry](), 1 if take.with_deletes else 2
    of_one, of_many = _bytes_along(wanted, along)
    # Half of it is for data: however much is to be applied, it must come to an end.
    left_bytes = max(take.at_most_bytes - beside_bytes - min(of_many, take.at_most_bytes // 2), 0)
    for entry in sorted(wanted, key=order):
        size_bytes = entry.size_bytes + of_one[normalised(entry.path)]
        if len(chosen) >= least and (size_bytes > left_bytes or len(chosen) >= MAX_JOB_FILES):
            break
        chosen.append(entry)
        left_bytes -= size_bytes
    return chosen


def _bytes_along(wanted: Iterable[LiveEntry], along: Iterable[LiveEntry]) -> tuple[Counter[str], int]:
    """How many bytes of deletes name one data file alone, by its path, and how many may name several of them."""
    of_one: Counter[str] = Counter()
    of_many, files = 0, DataFiles(wanted)
    for delete in along:
        if not files.may_be_named_by(delete):
            continue
        if delete.referenced_data_file is None:
            of_many += delete.size_bytes
        else:
            of_one[normalised(delete.referenced_data_file)] += delete.size_bytes
    return of_one, of_many


def _spec_with_most_files(wanted: Iterable[LiveEntry]) -> int:
    counts = Counter(entry.spec_id for entry in wanted)
    return max(counts, key=lambda spec_id: (counts[spec_id], spec_id), default=0)


def _in_size(entry: LiveEntry) -> tuple[int, int, str]:
    """The smallest first."""
    return entry.size_bytes, *in_order(entry)


def in_order(entry: LiveEntry) -> tuple[int, str]:
    """Oldest first: rows that came together stay together."""
    return entry.sequence_number, entry.path
