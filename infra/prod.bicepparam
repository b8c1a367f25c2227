// A production environment. It keeps public addresses, which accept identities
// only: with vnetEnabled, Service Bus alone costs more than all the rest. See
// "Costs of the switches" in docs/infrastructure.md.
using './main.bicep'

param environmentName = 'prod'
param storageSku = 'Standard_ZRS'
// With zones, Azure bills two always-ready instances for each function of a queue
// or a timer: 24 instead of 2 with four partitions.
param zoneRedundant = false
param vnetEnabled = false
param alwaysReadyInstances = 2
param softDeleteDays = 30
param secondaryLocation = readEnvironmentVariable('INFRA_SECONDARY_LOCATION', '')
param registryEnabled = true
param workerImage = readEnvironmentVariable('INFRA_WORKER_IMAGE', '')
param workerExists = readEnvironmentVariable('INFRA_WORKER_EXISTS', 'false') == 'true'
param workerMinimum = 2
param authClientId = readEnvironmentVariable('INFRA_AUTH_CLIENT_ID', '')
param alertEmail = readEnvironmentVariable('INFRA_ALERT_EMAIL')
param logRetentionDays = 90
param logQuotaGB = 10
