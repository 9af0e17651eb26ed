#ifndef MUSTER_SERVER_COORDINATOR_LIFECYCLE_MEMBER_PLAN_H_
#define MUSTER_SERVER_COORDINATOR_LIFECYCLE_MEMBER_PLAN_H_

#include <cstdint>
#include <vector>

#include "proto/job_record.pb.h"

namespace muster {

// Decides which slots of a job on servers train next, where they may change
// (MembersChangeOnServers). Pure functions.

// What is known of a slot.
struct SlotSituation {
  // The present generation has a task in it.
  bool trains = false;
  // It has a worker.
  bool placed = false;
  // Its worker must end, or another job waits for it.
  bool leaves = false;
  // It has no worker, and the others still wait for one.
  bool awaited = false;
};

// How tasks end so that others can go on with the tables.
enum class MemberChange {
  // They do not.
  kNone,
  // After a step that all of them make.
  kPlanned,
  // At once: the others wait for a slot that nobody has.
  kAtOnce,
};

struct MemberPlan {
  MemberChange change = MemberChange::kNone;
  // All slots that train next, in order.
  std::vector<uint32_t> members;
  // How they differ from the present ones.
  std::vector<uint32_t> joining;
  std::vector<uint32_t> leaving;
  std::vector<uint32_t> lost;
};

// Plans the next members. `slots` has the slots by number. Nothing changes while a lost slot's
// worker is awaited, or if fewer than `least` slots would be left; the lists are there all the
// same.
MemberPlan PlanMembers(const std::vector<SlotSituation>& slots, uint32_t least);

// Returns a clock that tasks can still be told to end after, if the most advanced one has reported
// `furthest` closed clocks: they hear of it within about a second.
uint64_t EndClock(uint64_t furthest, double steps_per_second);

// Takes the record to the next generation, in which these slots go on with the tables. Slots keep
// their workers if they train on; a slot that trained gets another incarnation.
void TakeOver(const std::vector<uint32_t>& members, v1::JobRecord& record);

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_LIFECYCLE_MEMBER_PLAN_H_
