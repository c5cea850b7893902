"""The law of all stores about accounts. A part of StoreConformance in suite.py, which says how one is opened."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headway.core.access.accounts import Accounts, AuditEntry, Membership, Project, Token, User
from headway.store.conformance.specimens import a_job, change, ids
from headway.store.protocol import Batch, JobFilter, LeaderLost, Store

ADA = User("ada", "ada@example.org", "https://id.example.org|7", True, "local", 1.5)
VISION = Project("vision", "local", 2.5, ("vault://kv/vision/", "aws://eu-west-1/vision-*"))
TOKEN = Token("abcd", "0f" * 32, "service", "ci", "ada", "vision", "member", 1.0, 9.0, None, None)


def said(what: str, at: float = 1.0, actor: str = "ada") -> AuditEntry:
    return AuditEntry(at, actor, "user", what, "j1", "vision", "done", "é", "abcd")


class AccountConformance:
    def test_the_first_key_of_a_name_stays(self, store: Store) -> None:
        assert store.shared_key("a", "first") == "first"
        assert store.shared_key("a", "second") == "first"
        assert store.shared_key("b", "other") == "other"

    def test_a_shared_value_can_be_replaced_and_taken_away(self, store: Store) -> None:
        assert store.shared_value("a") == ""
        store.put_shared_value("a", "first")
        assert store.shared_key("a", "second") == "first"
        store.put_shared_value("a", "third")
        assert store.shared_value("a") == "third"
        store.put_shared_value("a", "")
        assert store.shared_key("a", "fourth") == "fourth"

    def test_accounts_come_back_as_they_were_saved(self, store: Store) -> None:
        bob = User("bob")
        members = [Membership("vision", "bob", "viewer"), Membership("speech", "ada", "admin")]
        store.commit(Batch(accounts=Accounts([bob, ADA], [], [VISION], [], members, [], [TOKEN])))
        assert store.user_accounts() == [ADA, bob]
        assert store.projects() == [VISION]
        assert store.members() == [members[1], members[0]]
        assert store.members(user="bob") == store.members(project="vision") == [members[0]]
        assert (store.tokens(), store.token("abcd"), store.token("no")) == ([TOKEN], TOKEN, None)

    def test_who_is_dropped_is_in_no_project(self, store: Store) -> None:
        members = [Membership("vision", "bob", "viewer"), Membership("vision", "ada", "admin")]
        members.append(Membership("speech", "ada", "viewer"))
        store.commit(Batch(accounts=Accounts([ADA, User("bob")], projects=[VISION], members=members)))
        store.commit(Batch(accounts=Accounts(dropped_users=["bob"], dropped_members=[("vision", "ada")])))
        assert (store.user_accounts(), store.members()) == ([ADA], [members[2]])
        store.commit(Batch(accounts=Accounts(dropped_projects=["speech"])))
        assert (store.projects(), store.members()) == ([VISION], [])

    def test_the_use_of_a_token_is_noted(self, store: Store) -> None:
        store.commit(Batch(accounts=Accounts(tokens=[TOKEN])))
        store.note_use("abcd", 5.5)
        store.note_use("no", 5.5)
        assert store.tokens() == [replace(TOKEN, used_at=5.5)]

    def test_the_audit_log_only_grows(self, store: Store) -> None:
        store.commit(Batch(audit=[said("a"), said("b", 2.0)]))
        store.add_audit([said("c", 3.0, "bob")])
        found = store.audit(0.0, "", 10)
        assert [(each.seq, each.what) for each in found] == [(1, "a"), (2, "b"), (3, "c")]
        assert replace(found[0], seq=0) == said("a")
        assert [each.what for each in store.audit(2.0, "ada", 10)] == ["b"]
        assert [each.what for each in store.audit(0.0, "", 2)] == ["b", "c"]

    def test_an_entry_hangs_on_the_jobs_that_its_change_touched(self, store: Store) -> None:
        store.commit(Batch(jobs=[change(a_job("j1"))]))
        again = [change(a_job("j1")), change(a_job("j2"))]
        hangs = [frozenset({"j1"}), frozenset({"j2"}), frozenset[str]()]
        committed = store.commit(Batch(again, audit=[said("a"), said("b"), said("c")], audit_jobs=hangs))
        assert committed.stale == {"j1"}
        assert [each.what for each in store.audit(0.0, "", 10)] == ["b", "c"]

    def test_another_leader_changes_no_accounts(self, store: Store) -> None:
        store.take_lead("s1", "", 0.0, 10.0)
        with pytest.raises(LeaderLost):
            store.commit(Batch(accounts=Accounts([ADA]), audit=[said("a")]), epoch=7)
        assert not store.user_accounts()
        assert not store.audit(0.0, "", 9)

    def test_jobs_are_found_within_projects(self, store: Store) -> None:
        jobs = [a_job(f"j{n}") for n in range(4)]
        jobs = [replace(job, spec=replace(job.spec, project=f"p{n % 2}")) for n, job in enumerate(jobs)]
        store.commit(Batch(jobs=[change(job) for job in jobs]))
        one = frozenset({"p1", "p9"})
        assert ids(store.page(JobFilter(projects=one), None, 9)) == ["j3", "j1"]
        assert ids(store.page(JobFilter(frozenset({"queued", "running"}), projects=one), None, 9)) == ["j3", "j1"]
        assert ids(store.find("j", 9, one)) == ids(store.find(jobs[0].spec.name, 9, one)) == ["j3", "j1"]
        assert store.counts(JobFilter(projects=one)) == {"queued": 2}
        nothing: frozenset[str] = frozenset()
        assert not store.page(JobFilter(projects=nothing), None, 9)
        assert (store.find("j", 9, nothing), store.counts(JobFilter(projects=nothing))) == ([], {})
