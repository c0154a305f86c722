/* A stand-in for the NVIDIA driver's libnvidia-ml.so.1, so that the real pynvml can be tested without a GPU.
 * Environment variables say how it behaves:
 *   STUB_GPUS         how many GPUs there are (2)
 *   STUB_INIT_ERROR   what starting answers instead of success
 *   STUB_ABSENT       metrics that answer "not supported", for example "power,temperature"
 *   STUB_BROKEN       metrics that answer "unknown error"
 *   STUB_SICK_GPU     the GPU that answers STUB_SICK_ERROR (15: lost) from its STUB_SICK_AFTER-th reading on
 * With -DOLD_DRIVER the entry points that came late are missing, as they are in an old driver. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, GPU_IS_LOST = 15, UNKNOWN = 999 };

#define MOST_GPUS 8
#define GIB (1024ull * 1024 * 1024)
static int readings[MOST_GPUS];

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

static int listed(const char *variable, const char *metric) {
    const char *text = getenv(variable);
    return text && strstr(text, metric) != NULL;
}

/* Handles are never followed by pynvml: the index plus one is enough. */
static int index_of(void *device) { return (int)(intptr_t)device - 1; }

static int answer(void *device, const char *metric) {
    int index = index_of(device);
    if (index < 0 || index >= MOST_GPUS) return INVALID_ARGUMENT;
    if (setting("STUB_SICK_GPU", -1) == index && readings[index]++ >= setting("STUB_SICK_AFTER", 0))
        return setting("STUB_SICK_ERROR", GPU_IS_LOST);
    if (listed("STUB_ABSENT", metric)) return NOT_SUPPORTED;
    if (listed("STUB_BROKEN", metric)) return UNKNOWN;
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) { (void)flags; return setting("STUB_INIT_ERROR", SUCCESS); }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int error) { (void)error; return "an error of the stub"; }

int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "570.86.15"); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 12080; return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)setting("STUB_GPUS", 2); return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index >= (unsigned)setting("STUB_GPUS", 2)) return INVALID_ARGUMENT;
    *device = (void *)(intptr_t)(index + 1);
    return SUCCESS;
}

int nvmlDeviceGetUUID(void *device, char *text, unsigned size) {
    static const char *begins[MOST_GPUS] = {"1a2b", "1a3c", "9f00", "9f01", "a0", "a1", "a2", "a3"};
    snprintf(text, size, "GPU-%s0000-aaaa-bbbb-cccc-00000000000%d", begins[index_of(device)], index_of(device));
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *text, unsigned size) {
    snprintf(text, size, "Stub GPU %c", 'A' + index_of(device));
    return SUCCESS;
}

struct pci { char legacy[16]; unsigned domain, bus, device, device_id, subsystem_id; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *info) {
    snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", 1 + index_of(device));
    return SUCCESS;
}

/* The driver keeps 1 GiB for itself: version 1 counts it as used, version 2 does not. */
struct memory { unsigned long long total, free, used; };
int nvmlDeviceGetMemoryInfo(void *device, struct memory *memory) {
    (void)device;
    if (listed("STUB_ABSENT", "memory_info")) return NOT_SUPPORTED;
    *memory = (struct memory){24 * GIB, 20 * GIB, 4 * GIB};
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
    rates[0] = 40 + 10 * (unsigned)index_of(device);
    rates[1] = 7;
    return answer(device, "utilization");
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = 123456;
    return answer(device, "power");
}

int nvmlDeviceGetTemperature(void *device, unsigned sensor, unsigned *celsius) {
    *celsius = 61;
    return sensor ? INVALID_ARGUMENT : answer(device, "temperature");
}

int nvmlDeviceGetClockInfo(void *device, unsigned kind, unsigned *mhz) {
    *mhz = kind == 1 ? 1410 : 5001;
    return answer(device, kind == 1 ? "sm_clock" : "memory_clock");
}

#ifndef OLD_DRIVER
struct memory_v2 { unsigned version; unsigned long long total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory_v2 *memory) {
    *memory = (struct memory_v2){memory->version, 24 * GIB, 1 * GIB, 20 * GIB, 3 * GIB};
    return listed("STUB_ABSENT", "memory_info") ? NOT_SUPPORTED : answer(device, "memory_v2");
}

struct temperature { unsigned version, sensor; int celsius; };
int nvmlDeviceGetTemperatureV(void *device, struct temperature *temperature) {
    temperature->celsius = 62;
    return answer(device, "temperature");
}
#endif
