// The minimum number of workers to deploy with. A deployment replaces the whole
// scale of a container app, so the minimum that the scaling check has set has to
// be read before.

@description('Name of the container app.')
param workerName string

@description('The container app exists. Reading one that does not would fail.')
param exists bool

@description('Minimum of a new one.')
param initial int

resource worker 'Microsoft.App/containerApps@2025-01-01' existing = if (exists) {
  name: workerName
}

// Azure leaves out a minimum of 0.
output minimum int = exists ? (worker!.properties.template.scale.?minReplicas ?? 0) : initial
