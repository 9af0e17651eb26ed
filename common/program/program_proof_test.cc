#include "common/program/program_proof.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/job_service.pb.h"

namespace muster {
namespace {

constexpr char kToken[] = "the token of the test";

v1::SubmitJobRequest Request() {
  v1::SubmitJobRequest request;
  request.set_request_id("r1");
  v1::ProgramSpec& program = *request.mutable_spec()->mutable_model()->mutable_program();
  program.add_command("python3");
  program.add_command("train.py");
  program.set_working_folder("/srv");
  (*program.mutable_environment())["A"] = "1";
  (*program.mutable_environment())["B"] = "2";
  return request;
}

TEST(ProgramProofTest, EveryPartOfAProgramCounts) {
  std::set<std::string> proofs = {ProofOfSubmit(Request(), kToken),
                                  ProofOfSubmit(Request(), "another token of it")};
  v1::SubmitJobRequest other = Request();
  v1::ProgramSpec& program = *other.mutable_spec()->mutable_model()->mutable_program();
  const auto add = [&] { proofs.insert(ProofOfSubmit(other, kToken)); };
  other.set_request_id("r2");
  add();
  program.set_working_folder("/srw");
  add();
  // The texts one after the other are the same.
  program.set_command(0, "python3t");
  program.set_command(1, "rain.py");
  add();
  program.add_command("A");
  add();
  (*program.mutable_environment())["B"] = "3";
  add();
  program.mutable_environment()->erase("B");
  add();
  // Pickles may be in a checkpoint.
  other.mutable_spec()->set_resume_from("j1@5");
  add();
  for (const char* name : {"sha256-00", "sha256-01"}) {
    program.set_shipped(name);
    add();
  }
  EXPECT_EQ(proofs.size(), 11u);
  EXPECT_EQ(ProofOfSubmit(Request(), kToken), ProofOfSubmit(Request(), kToken));
}

TEST(ProgramProofTest, NameAndSizeOfAShippedFolderCount) {
  v1::ShippedFolder folder;
  folder.set_name("sha256-00");
  folder.set_bytes(11);
  std::set<std::string> proofs = {ProofOfShipped(folder, kToken),
                                  ProofOfShipped(folder, "another token of it")};
  // The texts one after the other are the same.
  folder.set_name("sha256-001");
  folder.set_bytes(1);
  proofs.insert(ProofOfShipped(folder, kToken));
  folder.set_bytes(2);
  proofs.insert(ProofOfShipped(folder, kToken));
  EXPECT_EQ(proofs.size(), 4u);
}

TEST(ProgramProofTest, AnOrderIsProvenButForWhatTheWorkerAdds) {
  v1::TaskOrder order;
  order.set_job_id("j1");
  *order.mutable_spec() = Request().spec();
  const std::string proof = ProofOfOrder(order, kToken);
  order.set_proof(proof);
  order.set_device(3);
  EXPECT_EQ(ProofOfOrder(order, kToken), proof);
  EXPECT_NE(ProofOfOrder(order, "another token of it"), proof);
  order.set_restore_uri("/elsewhere");
  EXPECT_NE(ProofOfOrder(order, kToken), proof);
}

}  // namespace
}  // namespace muster
