#ifndef MUSTER_CLIENT_PLAN_MESH_TEXT_H_
#define MUSTER_CLIENT_PLAN_MESH_TEXT_H_

#include <string>

#include "proto/job.pb.h"

namespace muster {

// Returns the job's mesh for people: the sizes of its axes, the coordinates of its first slots, and
// the groups along each axis with what they tell one another. Empty for jobs whose workers differ
// in `data` alone.
std::string MeshText(const v1::JobSpec& spec);

}  // namespace muster

#endif  // MUSTER_CLIENT_PLAN_MESH_TEXT_H_
