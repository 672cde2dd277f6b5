"""Check: what a log shows against what it declares."""

from __future__ import annotations

from synthetic import centred, rollouts, standardised, with_advantages, write

from audit.analyses.check import check


def ids(result) -> set[str]:
    return {problem.id for problem in result.problems}


def test_a_sound_run_has_no_problem(tmp_path) -> None:
    rows = with_advantages(rollouts(), standardised(0, 0.0))
    result = check(write(tmp_path / "run", rows, "grpo"))
    assert result.problems == []
    assert result.inferred is not None
    assert result.inferred.agrees is True
    assert (result.coverage.steps, result.coverage.first_step, result.coverage.last_step) == (24, 1, 24)
    assert result.coverage.missing_steps == 0


def test_advantages_that_contradict_the_declaration_are_an_error_that_names_what_fits(tmp_path) -> None:
    result = check(write(tmp_path / "run", with_advantages(rollouts(), centred), "grpo"))
    (problem,) = [p for p in result.problems if p.id == "advantage.contradicts-declaration"]
    assert problem.severity == "error"
    assert "group_mean" in problem.summary
    assert problem.rows == 12 * 4 * 8 * 2


def test_groups_of_one_whose_advantage_is_the_reward(tmp_path) -> None:
    rows = [row | {"group_id": f"{row['group_id']}/{row['sample_index']}"} for row in rollouts()]
    for row in rows:
        row["advantage"] = row["reward"]
    result = check(write(tmp_path / "run", rows, "grpo"))
    (problem,) = [p for p in result.problems if p.id == "group.singleton"]
    assert problem.severity == "error"
    assert "raw reward" in problem.summary
    assert problem.rows == len(rows) // 2  # of the first inner pass


def test_a_ratio_that_is_not_one_before_any_update(tmp_path) -> None:
    rows = rollouts()
    for row in rows:
        if row["update"] == 1:
            row["logp_theta"] = [x - 0.3 for x in row["logp_theta"]]
    result = check(write(tmp_path / "run", rows, "grpo"))
    (problem,) = [p for p in result.problems if p.id == "ratio.not-one-at-start"]
    assert problem.rows == 32
    assert problem.steps == (1,)


def test_single_update_batches_are_said_to_make_clipping_inactive(tmp_path) -> None:
    result = check(write(tmp_path / "run", rollouts(epochs=1), "grpo"))
    assert "ratio.always-one" in ids(result)


def test_missing_steps_are_counted_on_the_logs_own_grid(tmp_path) -> None:
    rows = [row | {"step": 10 * row["step"]} for row in rollouts(epochs=1) if row["step"] not in (4, 5)]
    coverage = check(write(tmp_path / "run", rows, "grpo")).coverage
    assert (coverage.steps, coverage.missing_steps) == (10, 2)


def test_no_declaration_is_said_and_does_not_stop_the_rest(tmp_path) -> None:
    result = check(write(tmp_path / "run", with_advantages(rollouts(), centred)))
    assert "objective.undeclared" in ids(result)
    assert result.inferred is not None
    assert result.inferred.status == "fits"


def test_an_unreadable_declaration_is_a_problem_not_an_exception(tmp_path) -> None:
    result = check(write(tmp_path / "run", rollouts(), {"name": "grpo", "clip": {"epsilon": 1}}))
    assert "objective.unreadable" in ids(result)


def test_token_lists_of_unequal_length_are_reported_and_nothing_is_computed_from_them(tmp_path) -> None:
    import pyarrow.parquet as pq

    run = write(tmp_path / "run", rollouts(epochs=1), "grpo")
    (file,) = run.files
    table = pq.read_table(file.path).to_pylist()
    table[0]["logp_old"] = table[0]["logp_old"][:-1]
    import pyarrow as pa

    from audit.schema import arrow_schema

    names = set(table[0])
    kept = pa.schema([f for f in arrow_schema() if f.name in names])
    pq.write_table(pa.Table.from_pylist(table, schema=kept), file.path)
    from audit.logs import open_run

    result = check(open_run(tmp_path / "run"))
    assert any(p.severity == "error" and p.rows == 1 for p in result.problems)
    assert any("row 0" in skip.needs for skip in result.skipped)
