#include "client/chaos/server_rounds.h"

#include <filesystem>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/chaos/faults/file_damage.h"
#include "client/chaos/integer_pushers.h"
#include "client/chaos/standalone_server.h"
#include "common/base/philox.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

constexpr absl::Duration kLongestLife = absl::Milliseconds(400);
constexpr absl::Duration kPushersPoll = absl::Milliseconds(2);

// The parts of a round on one server.
struct Stage {
  Stage(const std::string& program, const std::string& folder) : server(program, folder) {}

  absl::Status Prepare(const std::string& folder) {
    std::error_code error;
    std::filesystem::create_directories(folder + "/checkpoints", error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot make ", folder, "/checkpoints: ", error.message()));
    }
    MUSTER_RETURN_IF_ERROR(server.Start());
    MUSTER_ASSIGN_OR_RETURN(
        pushers, IntegerPushers::Create(server, {.checkpoint_root = folder + "/checkpoints"}));
    return absl::OkStatus();
  }

  StandaloneServer server;
  std::unique_ptr<IntegerPushers> pushers;
};

absl::Duration Part(const Philox& random, absl::Duration whole, uint64_t number) {
  return whole * static_cast<double>(random.Uniform(number));
}

// Returns true if a message names the damaged file, or the folder of its log or store.
bool Names(absl::string_view message, const FileDamage& damage) {
  const std::filesystem::path path(damage.file);
  return absl::StrContains(message, path.filename().string());
}

// A server that found what was done to its files: says so, or brings back an error that is none.
absl::Status CheckFound(const absl::Status& status, const FileDamage& damage,
                        ChaosOutcome& outcome) {
  if (absl::IsInternal(status) || absl::IsDeadlineExceeded(status) || absl::IsUnavailable(status)) {
    return absl::Status(status.code(),
                        absl::StrCat("after it ", damage.Describe(), ": ", status.message()));
  }
  ++outcome.found;
  if (Names(status.message(), damage)) ++outcome.named;
  absl::StrAppend(&outcome.what, "; found: ", absl::StripAsciiWhitespace(status.message()));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ChaosOutcome> RunKilledServerRound(const std::string& server,
                                                  const std::string& folder, uint64_t seed,
                                                  int kills) {
  const Philox random(seed, "chaos", "killed server");
  Stage stage(server, folder);
  MUSTER_RETURN_IF_ERROR(stage.Prepare(folder));
  ChaosOutcome outcome;
  // Some clocks at a time, until the last kill has come.
  uint64_t clocks = 0;
  absl::Time kill_at = absl::Now() + Part(random, kLongestLife, outcome.kills);
  while (outcome.kills < kills) {
    clocks += 60;
    stage.pushers->Begin(clocks);
    while (!stage.pushers->Done()) {
      if (absl::Now() >= kill_at && outcome.kills < kills) {
        stage.server.Kill();
        ++outcome.kills;
        MUSTER_RETURN_IF_ERROR(stage.server.Start());
        kill_at = absl::Now() + Part(random, kLongestLife, outcome.kills);
      }
      absl::SleepFor(kPushersPoll);
    }
    MUSTER_RETURN_IF_ERROR(stage.pushers->Await());
  }
  MUSTER_RETURN_IF_ERROR(stage.pushers->CheckSums());
  outcome.what =
      absl::StrCat("4 slots pushed ", stage.pushers->clocks(), " clocks each, all sums are exact");
  return outcome;
}

absl::StatusOr<ChaosOutcome> RunDamagedFileRound(const std::string& server,
                                                 const std::string& folder, uint64_t seed) {
  const Philox random(seed, "chaos", "damaged file");
  Stage stage(server, folder);
  MUSTER_RETURN_IF_ERROR(stage.Prepare(folder));
  ChaosOutcome outcome;
  stage.pushers->Begin(20 + random.Below(200, 0));
  MUSTER_RETURN_IF_ERROR(stage.pushers->Await());

  stage.server.Kill();
  ++outcome.kills;
  const std::string copy = folder + "/copy";
  MUSTER_RETURN_IF_ERROR(CopyFolder(stage.server.data(), copy));
  MUSTER_ASSIGN_OR_RETURN(const FileDamage damage, DamageOneFile(stage.server.data(), seed));
  ++outcome.damages;
  outcome.what = damage.Describe();

  absl::Status status = stage.server.Start();
  const uint64_t more = stage.pushers->clocks() + 20;
  if (status.ok()) {
    stage.pushers->Begin(more);
    status = stage.pushers->Await();
    if (status.ok()) status = stage.pushers->CheckSums();
    if (absl::IsDataLoss(status) && absl::StrContains(status.message(), "are wrong in all")) {
      return absl::DataLossError(
          absl::StrCat("after it ", damage.Describe(), ", unnoticed: ", status.message()));
    }
  }
  if (status.ok()) {
    absl::StrAppend(&outcome.what, "; nothing needed it, all sums are exact");
    return outcome;
  }
  MUSTER_RETURN_IF_ERROR(CheckFound(status, damage, outcome));
  // Once its files are whole again, the server continues from where it was.
  stage.server.Kill();
  stage.pushers->Rewind();
  MUSTER_RETURN_IF_ERROR(CopyFolder(copy, stage.server.data()));
  MUSTER_RETURN_IF_ERROR(stage.server.Start());
  stage.pushers->Begin(more);
  MUSTER_RETURN_IF_ERROR(stage.pushers->Await());
  MUSTER_RETURN_IF_ERROR(stage.pushers->CheckSums());
  return outcome;
}

}  // namespace muster
