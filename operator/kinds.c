/* The table of kinds. */
#include "kinds.h"

#include <string.h>

const struct kind_row kinds[KIND_N] = {
    [KIND_SAMPLESET] = {"batch.paddlepaddle.org", "v1alpha1", "SampleSet", "samplesets", true},
    [KIND_SAMPLEJOB] = {"batch.paddlepaddle.org", "v1alpha1", "SampleJob", "samplejobs", true},
    [KIND_PADDLEJOB] = {"batch.paddlepaddle.org", "v1", "PaddleJob", "paddlejobs", true},
    [KIND_TRAININGJOB] = {"paddlepaddle.org", "v1", "TrainingJob", "trainingjobs", true},
    [KIND_POD] = {"", "v1", "Pod", "pods", true},
    [KIND_SERVICE] = {"", "v1", "Service", "services", true},
    [KIND_CONFIGMAP] = {"", "v1", "ConfigMap", "configmaps", true},
    [KIND_SECRET] = {"", "v1", "Secret", "secrets", true},
    [KIND_PVC] = {"", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true},
    [KIND_PV] = {"", "v1", "PersistentVolume", "persistentvolumes", false},
    [KIND_STATEFULSET] = {"apps", "v1", "StatefulSet", "statefulsets", true},
    [KIND_REPLICASET] = {"apps", "v1", "ReplicaSet", "replicasets", true},
    [KIND_JOB] = {"batch", "v1", "Job", "jobs", true},
    [KIND_NODE] = {"", "v1", "Node", "nodes", false},
    [KIND_PODGROUP] = {"scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups", true},
    [KIND_LEASE] = {"coordination.k8s.io", "v1", "Lease", "leases", true},
    [KIND_EVENT] = {"", "v1", "Event", "events", true},
};

enum kind kind_of(const char *api_version, const char *kind)
{
    for (int k = 0; k < KIND_N; k++) {
        size_t group = strlen(kinds[k].group);
        const char *version = api_version;
        if (group) {
            if (strncmp(api_version, kinds[k].group, group) != 0 || api_version[group] != '/')
                continue;
            version += group + 1;
        }
        if (strcmp(version, kinds[k].version) == 0 && strcmp(kind, kinds[k].kind) == 0)
            return (enum kind)k;
    }
    return KIND_N;
}
